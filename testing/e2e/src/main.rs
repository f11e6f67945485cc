//! The operator as users install it: its images and install file in a real cluster, with the
//! shipped permissions, under restricted Pod Security. `cargo xtask test e2e` builds the images and
//! runs this.
//!
//! All tests share one cluster; each has a namespace. Tests that disturb others run exclusively
//! ([`test_env::run_exclusively`]).
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test says why it is skipped, and fails by panicking"
)]

mod cli;
mod git_host;
mod operator_cluster;
mod pods;
mod scheduling;
mod stacks;
mod test_env;

mod backends;
mod deletion;
mod examples;
mod faults;
mod languages;
mod leader_failover;
mod lifecycle;
mod measurements;
mod rbac;
mod secret_leaks;
mod sources;
mod upstream_scenarios;
