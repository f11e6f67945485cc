//! Tests of the testkit itself, with real components.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failing step fails the test"
)]

mod audit;
mod cleanup;
mod control_plane;
mod controllers;
mod fault_proxy;
mod fixtures;
mod flux;
mod namespace;
mod node;
mod stand_in;
mod transcripts;
