//! The testkit tried on itself: real components throughout.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failing step fails the test"
)]

mod audit;
mod control_plane;
mod controllers;
mod ending;
mod fault_proxy;
mod fixtures;
mod flux;
mod namespace;
mod node;
mod stand_in;
mod transcripts;
