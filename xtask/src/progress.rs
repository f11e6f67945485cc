//! Lines that say what takes time, and how long it took.

use std::time::{Duration, Instant};

/// A step under way; says so when it begins.
pub(crate) struct Step(Instant);

impl Step {
    /// Begins a step.
    pub(crate) fn begin(what: &str) -> Self {
        println!("{what} …");
        Self(Instant::now())
    }

    /// Begins one that says nothing of it.
    pub(crate) fn quiet() -> Self {
        Self(Instant::now())
    }

    /// How long it has taken so far.
    pub(crate) fn elapsed(&self) -> String {
        seconds(self.0.elapsed())
    }
}

/// A duration as a person reads it.
pub(crate) fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        0..60 => format!("{:.1} s", duration.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        assert_eq!(seconds(Duration::from_millis(1_540)), "1.5 s");
        assert_eq!(seconds(Duration::from_secs(125)), "2 min 5 s");
    }
}
