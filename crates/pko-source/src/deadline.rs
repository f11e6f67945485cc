//! How long a call may take, whatever the other side does.

use std::time::{Duration, Instant};

/// The time at which a call gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Instant);

/// The other side took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it took too long")]
pub struct DeadlineExceeded;

impl Deadline {
    /// So long from now.
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        Self(Instant::now() + duration)
    }

    /// What is left, which is never nothing: a time of zero means "no limit" to many libraries.
    pub fn remaining(self) -> Result<Duration, DeadlineExceeded> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(DeadlineExceeded);
        }
        Ok(left)
    }

    /// The time itself.
    #[must_use]
    pub fn at(self) -> Instant {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left() {
        let later = Deadline::after(Duration::from_mins(1));
        assert!(later.remaining().unwrap() <= Duration::from_mins(1));
        let now = Deadline::after(Duration::ZERO);
        assert_eq!(now.remaining(), Err(DeadlineExceeded));
    }
}
