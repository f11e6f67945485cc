//! The agent as a process, called as a manager calls it, with a scripted `pulumi` and with real
//! ones.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod auth;
mod automation;
mod config;
mod config_values;
mod container_init;
mod harness;
mod init;
mod init_git;
mod locks;
mod misbehaving_cli;
mod operations;
mod resource_leaks;
mod run_cancellation;
mod run_journal;
mod run_reattachment;
mod runs;
mod secret_redaction;
mod serve_start;
mod set_all_config;
mod stack_lifecycle;
mod stacks;
mod upstream_parity;
