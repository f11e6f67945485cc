//! Keeps a server from redirecting us to this machine or to a cloud's metadata service (SSRF).

use std::net::IpAddr;

use ureq::{
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};

/// Resolves names, without addresses that are reachable only from this machine.
#[derive(Debug, Default)]
pub(super) struct PublicResolver(DefaultResolver);

impl Resolver for PublicResolver {
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

/// Loopback, link-local (cloud metadata) or unspecified.
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
    fn ssrf_guard_detects_internal_addresses() {
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
