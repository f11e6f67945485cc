//! The kinds on a real API server.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod crds;
mod documented;
mod manager_policy;
mod plane;
mod rejections;
mod requesters;
mod round_trip;
mod upstream_cluster;
mod warnings;
mod watch;
