use std::time::{Duration, Instant};

/// The time at which a call gives up, no matter what the server does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Instant);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the deadline was exceeded")]
pub struct DeadlineExceeded;

impl Deadline {
    #[must_use]
    pub fn after(duration: Duration) -> Self {
        Self(Instant::now() + duration)
    }

    /// The time left, which is never zero: many libraries take zero for "no limit".
    pub fn remaining(self) -> Result<Duration, DeadlineExceeded> {
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(DeadlineExceeded);
        }
        Ok(left)
    }

    #[must_use]
    pub fn at(self) -> Instant {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_remaining_fails_after_it() {
        let later = Deadline::after(Duration::from_mins(1));
        assert!(later.remaining().unwrap() <= Duration::from_mins(1));
        let now = Deadline::after(Duration::ZERO);
        assert_eq!(now.remaining(), Err(DeadlineExceeded));
    }
}
