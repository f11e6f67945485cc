//! Progress on standard output: what a step does and how long it took.
#![expect(clippy::print_stdout, reason = "progress for a person")]

use std::time::{Duration, Instant};

/// A step in progress.
pub struct Step(Instant);

impl Step {
    /// Starts a step and prints what it does.
    #[must_use]
    pub fn begin(what: &str) -> Self {
        println!("{what} …");
        Self(Instant::now())
    }

    /// Starts a step without printing.
    #[must_use]
    pub fn quiet() -> Self {
        Self(Instant::now())
    }

    /// The time since the start, for a person.
    #[must_use]
    pub fn elapsed(&self) -> String {
        seconds(self.0.elapsed())
    }
}

/// Formats a duration for a person.
#[must_use]
pub fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_formats_durations_for_people() {
        assert_eq!(seconds(Duration::from_millis(1_540)), "1.5 s");
        assert_eq!(seconds(Duration::from_secs(125)), "2 min 5 s");
    }
}
