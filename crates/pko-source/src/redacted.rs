//! Values that must not be printed.

use std::fmt;

/// A value that says `[redacted]` wherever it is printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Redacted<T>(T);

impl<T> Redacted<T> {
    /// Wraps the value.
    pub fn new(value: T) -> Self {
        Self(value)
    }

    /// The value itself, for the one place that needs it.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Redacted<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redacted_value_is_not_printed() {
        assert_eq!(
            format!("{:?}", Some(Redacted::new("canary"))),
            "Some([redacted])"
        );
    }
}
