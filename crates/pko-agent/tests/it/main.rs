//! The agent as a process, driven as operators drive it, with a scripted stand-in for `pulumi`.
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
mod parity;
mod real_pulumi;
mod runs;
mod stopping;
