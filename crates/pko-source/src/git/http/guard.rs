//! Addresses that a server elsewhere has no business to send us to: this machine's own, and those that clouds
//! keep their machines' secrets at.

use std::net::IpAddr;

use ureq::{
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};

/// Finds addresses, but none that only this machine can reach.
#[derive(Debug, Default)]
pub(super) struct OutwardResolver(DefaultResolver);

impl Resolver for OutwardResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.0.resolve(uri, config, timeout)?;
        let mut outward = self.empty();
        for address in found.iter().filter(|address| !is_internal(address.ip())) {
            outward.push(*address);
        }
        if outward.is_empty() {
            return Err(ureq::Error::HostNotFound);
        }
        Ok(outward)
    }
}

/// Loopback, link-local (where clouds have their metadata) or nothing at all.
pub(super) fn is_internal(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_loopback() || address.is_link_local() || address.is_unspecified()
        }
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(mapped) => is_internal(mapped.into()),
            None => {
                address.is_loopback() || address.is_unspecified() || address.is_unicast_link_local()
            }
        },
    }
}

/// Loopback, by its name or its number.
pub(super) fn is_this_machine(host: &str) -> bool {
    host == "localhost"
        || host.ends_with(".localhost")
        || host
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_addresses_are_internal() {
        for (address, internal) in [
            ("127.0.0.1", true),
            ("127.8.8.8", true),
            ("169.254.169.254", true),
            ("0.0.0.0", true),
            ("::1", true),
            ("fe80::1", true),
            ("::ffff:169.254.169.254", true),
            ("10.0.0.1", false),
            ("140.82.121.3", false),
            ("fd00::1", false),
        ] {
            assert_eq!(is_internal(address.parse().unwrap()), internal, "{address}");
        }
    }
}
