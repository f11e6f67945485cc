//! Validates repository addresses.

use std::net::IpAddr;

use pko_source::git::{Address, Scheme};

/// Errors never repeat the address, which may have a password in it.
pub(super) fn checked(text: &str, allow_http: bool) -> Result<Address, String> {
    let address = Address::parse(text).map_err(|error| error.to_string())?;
    let plain = address.scheme() == Scheme::Http;
    if plain && !allow_http && !is_this_machine(address.host()) {
        return Err(
            "invalid URL scheme: http; use https or ssh, or start the manager with --git-allow-http"
                .to_owned(),
        );
    }
    Ok(address)
}

fn is_this_machine(host: &str) -> bool {
    let number = host.parse::<IpAddr>();
    host == "localhost" || number.is_ok_and(|number| number.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_address_plain_http_needs_localhost_or_the_flag() {
        for (text, without, with) in [
            ("https://git.test/a/b", true, true),
            ("git@git.test:a/b.git", true, true),
            ("ssh://git@git.test/a/b.git", true, true),
            ("https://gitlab.test/group/subgroup/deeper/repo", true, true),
            ("http://127.0.0.1:3000/a/b", true, true),
            ("http://localhost/a/b", true, true),
            ("http://[::1]:3000/a/b", true, true),
            ("http://git.test/a/b", false, true),
            ("http://localhost.evil.test/a/b", false, true),
            ("http://127.0.0.1.evil.test/a/b", false, true),
            ("file:///a/b", false, false),
            ("hhtp://git.test/a/b", false, false),
        ] {
            assert_eq!(checked(text, false).is_ok(), without, "{text}");
            assert_eq!(checked(text, true).is_ok(), with, "{text}");
        }
    }

    /// 131.
    #[test]
    fn git_address_error_does_not_repeat_the_password() {
        let problem = |text| checked(text, false).unwrap_err();
        let scheme = problem("hhtp://me:canary@git.test/a/b");
        assert!(scheme.starts_with("invalid URL scheme: hhtp"), "{scheme}");
        let plain = problem("http://me:canary@git.test/a/b");
        assert!(plain.starts_with("invalid URL scheme: http;"), "{plain}");
        assert!(plain.contains("--git-allow-http"), "{plain}");
        for text in [scheme, plain, problem("https://me:canary@/a/b")] {
            assert!(!text.contains("canary"), "{text}");
        }
    }
}
