//! The agent as a process, driven as operators drive it, with a stand-in for `pulumi` and with real ones.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod auth;
mod automation;
mod config;
mod config_values;
mod harness;
mod init;
mod life_of_a_stack;
mod parity;
mod runs;
mod stopping;
