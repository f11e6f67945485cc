//! The addresses of clouds' metadata services, which no repository of a user may name.

use std::net::IpAddr;

/// `fd00:ec2::254`.
const AWS_METADATA: [u16; 8] = [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254];

/// Where clouds serve metadata and credentials of the machine.
pub(crate) fn is_link_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_unicast_link_local() || address.segments() == AWS_METADATA
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_addresses_are_denied_to_users() {
        for (address, denied) in [
            ("169.254.169.254", true),
            ("::ffff:169.254.169.254", true),
            ("fe80::1", true),
            ("fd00:ec2::254", true),
            ("127.0.0.1", false),
            ("::1", false),
            ("10.0.0.1", false),
        ] {
            assert_eq!(is_link_local(address.parse().unwrap()), denied, "{address}");
        }
    }
}
