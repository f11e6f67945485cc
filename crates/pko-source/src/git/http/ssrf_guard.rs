//! Keeps users from reaching a cloud's metadata service through this process (SSRF), and servers
//! from redirecting us to this machine.

use std::net::IpAddr;

use ureq::{
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver},
        transport::NextTimeout,
    },
};

use crate::metadata_address::is_link_local;

/// Resolves names, without addresses that a tenant must not reach through this process.
#[derive(Debug)]
pub(super) struct GuardedResolver {
    default: DefaultResolver,
    is_denied: fn(IpAddr) -> bool,
}

impl GuardedResolver {
    /// For the addresses of users: no metadata service of a cloud.
    pub(super) fn for_users() -> Self {
        Self::new(is_link_local)
    }

    /// For the targets of redirects: nothing that only this machine can reach.
    pub(super) fn for_redirects() -> Self {
        Self::new(is_internal)
    }

    fn new(is_denied: fn(IpAddr) -> bool) -> Self {
        Self {
            default: DefaultResolver::default(),
            is_denied,
        }
    }
}

impl Resolver for GuardedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.default.resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        for address in found.iter().filter(|found| !(self.is_denied)(found.ip())) {
            allowed.push(*address);
        }
        if allowed.is_empty() {
            return Err(ureq::Error::HostNotFound);
        }
        Ok(allowed)
    }
}

/// Loopback, link-local (cloud metadata) or unspecified.
pub(super) fn is_internal(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified() || is_link_local(address)
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
            ("fd00:ec2::254", true),
        ] {
            assert_eq!(is_internal(address.parse().unwrap()), internal, "{address}");
        }
    }
}
