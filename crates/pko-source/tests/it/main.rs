//! Sources against real servers, and what comes from outside against nothing at all.
//! Sources, against real servers.
//! Sources as they are fetched: from real servers and odd ones, of real archives and odd ones.
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
mod git_faults;
mod git_fetch;
mod git_hostile;
mod git_list;
mod git_stream;
mod git_submodules;
mod git_support;
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod artifact_archive;
mod artifact_hostile;
mod artifact_memory;
mod artifact_server;
mod artifact_tar;
