//! The agent as a process, driven as operators drive it, with a stand-in for `pulumi` and with real ones.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod auth;
mod automation;
mod canary;
mod config;
mod config_values;
mod construction;
mod first_process;
mod harness;
mod init;
mod init_git;
mod leftovers;
mod life_of_a_stack;
mod locks;
mod odd_clis;
mod operations;
mod parity;
mod reattachment;
mod runs;
mod set_all_config;
mod stacks;
mod stopping;
