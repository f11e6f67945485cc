//! Sources against real servers, and what comes from outside against nothing at all.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod ssh_fuzz;
mod ssh_hanging;
mod ssh_harness;
mod ssh_hosts;
mod ssh_session;
