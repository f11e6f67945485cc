//! Property tests for a fixed time or number of cases.

use std::time::{Duration, Instant};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestRunner},
};

/// Few enough that the end is not missed by much, however slow one is.
const AT_ONCE: u32 = 100;

/// Tries values for ten seconds, or for as many as `PKO_FUZZ_SECONDS` says; a failure is shown in its smallest
/// form.
///
/// # Panics
/// If an attempt does.
pub fn fuzz_timed<S: Strategy>(strategy: &S, attempt: impl Fn(S::Value)) {
    let seconds = std::env::var("PKO_FUZZ_SECONDS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(10);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        fuzz_cases(AT_ONCE, strategy, &attempt);
    }
}

/// Tries so many values; a failure is shown in its smallest form.
///
/// # Panics
/// If an attempt does.
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn fuzz_cases<S: Strategy>(count: u32, strategy: &S, attempt: impl Fn(S::Value)) {
    let config = Config {
        cases: count,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(strategy, |value| {
        attempt(value);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}
