//! Sources as they are fetched: from real servers and odd ones.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod artifact_archive;
mod artifact_environment;
mod artifact_hostile;
mod artifact_memory;
mod artifact_server;
mod artifact_tar;
mod git_environment;
mod git_faults;
mod git_fetch;
mod git_hostile;
mod git_list;
mod git_measure;
mod git_stream;
mod git_submodules;
mod git_support;
mod poll_blocking;
mod poll_driver;
mod poll_git;
mod ssh_hanging;
mod ssh_harness;
mod ssh_hosts;
mod ssh_session;
