//! Fetches and polls sources from real and from misbehaving servers.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod artifact_environment;
mod artifact_gnu_tar;
mod artifact_harness;
mod artifact_malicious_archive;
mod artifact_memory;
mod artifact_server;
mod git_benchmark;
mod git_environment;
mod git_fetch;
mod git_harness;
mod git_malicious_repository;
mod git_over_stream;
mod git_references;
mod git_server_errors;
mod git_submodules;
mod poller;
mod poller_blocking;
mod poller_git;
mod ssh_harness;
mod ssh_host_keys;
mod ssh_session;
mod ssh_timeouts;
