//! Which servers a line of a `known_hosts` file is for. Does no I/O.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::hmac;

/// What marks a name of which only a hash is written down.
const HASHED: &str = "|1|";

/// The first field of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hosts {
    /// Patterns, of which one must match and no negated one may.
    Patterns(Vec<Pattern>),
    /// HMAC-SHA1 of the one name it is for.
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    negated: bool,
    text: String,
}

impl Hosts {
    /// Reads the field; nothing if it can't match anything.
    pub(super) fn parse(field: &str) -> Option<Self> {
        if let Some(hashed) = field.strip_prefix(HASHED) {
            let (salt, hash) = hashed.split_once('|')?;
            return Some(Self::Hashed {
                salt: BASE64_STANDARD.decode(salt).ok()?,
                hash: BASE64_STANDARD.decode(hash).ok()?,
            });
        }
        let patterns: Vec<_> = field.split(',').filter_map(Pattern::parse).collect();
        let some_match = patterns.iter().any(|pattern| !pattern.negated);
        some_match.then_some(Self::Patterns(patterns))
    }

    /// Whether a name, as `known_name` gives it, is meant.
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

impl Pattern {
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

/// `*` is anything, `?` one character. Takes time in proportion to both lengths, whatever the pattern.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to go on if what follows the last star did not fit.
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
        Hosts::parse(field).is_some_and(|hosts| hosts.matches(name))
    }

    #[test]
    fn patterns_match_as_openssh_matches_them() {
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
    fn a_field_that_matches_nothing_is_refused() {
        for field in [
            "",
            ",",
            "!only.example.com",
            "!",
            "|1|",
            "|1|AAAA",
            "|1|!|AAAA",
        ] {
            assert_eq!(Hosts::parse(field), None, "{field}");
        }
    }

    /// Made by `ssh-keygen -H` for `git.example.com` and for port 2222 of it.
    #[test]
    fn hashed_names_match() {
        let usual = "|1|azuujmUqTE1Ovk0PtN98ZV3z6sQ=|rWmK/lmEyOUyAYRpTwg9hPeiHpI=";
        let with_port = "|1|0CMo/R9tsu5/Z/oOTDtOyrkOiII=|AEpKgtC5lgFA0ujfHuM7x2g6lpg=";
        assert!(matches(usual, "git.example.com"));
        assert!(!matches(usual, "[git.example.com]:2222"));
        assert!(!matches(usual, "other.example.com"));
        assert!(matches(with_port, "[git.example.com]:2222"));
        assert!(!matches(with_port, "git.example.com"));
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let pattern = "*a".repeat(1000);
        assert!(!matches(&pattern, &"a".repeat(998)));
        assert!(matches(&pattern, &"a".repeat(5000)));
    }
}
