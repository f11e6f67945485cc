//! Property tests for a fixed time or number of cases.

use std::time::{Duration, Instant};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, TestRunner},
};

/// Small, so that slow cases do not exceed the time by much.
const AT_ONCE: u32 = 100;

/// Runs cases for `PKO_FUZZ_SECONDS`, by default ten. A failure is shrunk to its smallest
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

/// Runs this many cases. A failure is shrunk to its smallest form.
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
