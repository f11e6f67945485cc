//! Secret strings, on `secrecy`: wiped from memory when dropped, and never printed.

use std::{cmp::Ordering, fmt, hash};

use secrecy::{ExposeSecret as _, SecretString};

/// A secret string.
///
/// Its `Debug` is `[redacted]`, and it has no `Display`. Unlike [`SecretString`] it can be compared
/// and hashed, so that credentials can be part of a cache's key. The comparison is not constant in
/// time: use it for cache keys, never to verify what a caller sent.
#[derive(Clone, Default)]
pub struct Redacted(SecretString);

impl Redacted {
    pub fn new(secret: impl Into<String>) -> Self {
        Self(SecretString::from(secret.into()))
    }

    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Redacted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}

impl PartialEq for Redacted {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Redacted {}

impl PartialOrd for Redacted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Redacted {
    fn cmp(&self, other: &Self) -> Ordering {
        self.expose().cmp(other.expose())
    }
}

impl hash::Hash for Redacted {
    fn hash<H: hash::Hasher>(&self, hasher: &mut H) {
        self.expose().hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacted_value_debug_shows_placeholder() {
        assert_eq!(
            format!("{:?}", Some(Redacted::new("canary"))),
            "Some([redacted])"
        );
    }

    #[test]
    fn redacted_values_compare_by_secret() {
        assert_eq!(Redacted::new("a"), Redacted::new("a".to_owned()));
        assert!(Redacted::new("a") < Redacted::new("b"));
    }
}
