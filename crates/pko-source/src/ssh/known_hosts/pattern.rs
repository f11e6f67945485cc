//! Matches the host field of a `known_hosts` line. Does no I/O.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::hmac;

/// The prefix of a hashed name.
const HASHED: &str = "|1|";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostMatcher {
    /// At least one pattern must match, and no negated one.
    Patterns(Vec<HostPattern>),
    /// HMAC-SHA1 of a single name.
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPattern {
    negated: bool,
    text: String,
}

impl HostMatcher {
    /// Returns `None` if the field cannot match anything.
    pub(super) fn parse(field: &str) -> Option<Self> {
        if let Some(hashed) = field.strip_prefix(HASHED) {
            let (salt, hash) = hashed.split_once('|')?;
            return Some(Self::Hashed {
                salt: BASE64_STANDARD.decode(salt).ok()?,
                hash: BASE64_STANDARD.decode(hash).ok()?,
            });
        }
        let patterns: Vec<_> = field.split(',').filter_map(HostPattern::parse).collect();
        let some_match = patterns.iter().any(|pattern| !pattern.negated);
        some_match.then_some(Self::Patterns(patterns))
    }

    /// Matches a name as returned by `known_hosts_name`.
    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Hashed { salt, hash } => {
                let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
                hmac::verify(&key, name.as_bytes(), hash).is_ok()
            }
            Self::Patterns(patterns) => {
                let mut matching = patterns.iter().filter(|pattern| pattern.matches(name));
                let mut matched = false;
                matching.all(|pattern| {
                    matched = true;
                    !pattern.negated
                }) && matched
            }
        }
    }
}

impl HostPattern {
    fn parse(text: &str) -> Option<Self> {
        let (negated, text) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        (!text.is_empty()).then(|| Self {
            negated,
            text: text.to_ascii_lowercase(),
        })
    }

    fn matches(&self, name: &str) -> bool {
        glob(self.text.as_bytes(), name.as_bytes())
    }
}

/// `*` matches anything, `?` one character. Takes time proportional to both lengths for every
/// pattern.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to continue if the text after the last star does not match.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(from) {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                retry = Some((at, from));
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((after_star, start)) = retry else {
                    return false;
                };
                at = after_star;
                from = start + 1;
                retry = Some((after_star, start + 1));
            }
        }
    }
    let rest = pattern.get(at..).unwrap_or_default();
    rest.iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(field: &str, name: &str) -> bool {
        HostMatcher::parse(field).is_some_and(|hosts| hosts.matches(name))
    }

    #[test]
    fn host_patterns_match_like_openssh() {
        let table = [
            ("example.com", "example.com", true),
            ("EXAMPLE.com", "example.com", true),
            ("example.com", "git.example.com", false),
            ("example.com", "example.com.evil.org", false),
            ("*.example.com", "git.example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("git?.example.com", "git1.example.com", true),
            ("git?.example.com", "git.example.com", false),
            ("*", "anything", true),
            ("***", "anything", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("one,two", "two", true),
            ("one,,two", "two", true),
            ("*.example.com,!bad.example.com", "good.example.com", true),
            ("*.example.com,!bad.example.com", "bad.example.com", false),
            ("!bad.example.com,*.example.com", "bad.example.com", false),
            ("[git.example.com]:2222", "[git.example.com]:2222", true),
            ("[git.example.com]:2222", "git.example.com", false),
            ("git.example.com", "[git.example.com]:2222", false),
            ("[*.example.com]:2222", "[git.example.com]:2222", true),
            ("::1", "::1", true),
            ("192.0.2.*", "192.0.2.17", true),
        ];
        for (field, name, expected) in table {
            assert_eq!(matches(field, name), expected, "{field} and {name}");
        }
    }

    #[test]
    fn host_pattern_that_matches_nothing_is_rejected() {
        for field in [
            "",
            ",",
            "!only.example.com",
            "!",
            "|1|",
            "|1|AAAA",
            "|1|!|AAAA",
        ] {
            assert_eq!(HostMatcher::parse(field), None, "{field}");
        }
    }

    /// From `ssh-keygen -H`, for `git.example.com` and its port 2222.
    #[test]
    fn host_pattern_hashed_name_matches() {
        let usual = "|1|azuujmUqTE1Ovk0PtN98ZV3z6sQ=|rWmK/lmEyOUyAYRpTwg9hPeiHpI=";
        let with_port = "|1|0CMo/R9tsu5/Z/oOTDtOyrkOiII=|AEpKgtC5lgFA0ujfHuM7x2g6lpg=";
        assert!(matches(usual, "git.example.com"));
        assert!(!matches(usual, "[git.example.com]:2222"));
        assert!(!matches(usual, "other.example.com"));
        assert!(matches(with_port, "[git.example.com]:2222"));
        assert!(!matches(with_port, "git.example.com"));
    }

    #[test]
    fn host_pattern_matching_is_linear() {
        let pattern = "*a".repeat(1000);
        assert!(!matches(&pattern, &"a".repeat(998)));
        assert!(matches(&pattern, &"a".repeat(5000)));
    }
}
