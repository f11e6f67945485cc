//! Tests that can't run on this machine.

use std::fmt::Display;

/// The start of the line by which `cargo xtask test` counts a test as skipped.
pub const SKIPPED: &str = "skipped: ";

/// Marks the current test as skipped: `cargo xtask test` counts it so, and lists it with the
/// reason.
///
/// Call it on the test's own thread and return at once. A test that has asserted something is never
/// skipped.
#[expect(clippy::print_stdout, reason = "this is how a test reports it")]
pub fn skip(reason: impl Display) {
    println!("{SKIPPED}{reason}");
}
