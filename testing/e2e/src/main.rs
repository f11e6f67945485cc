//! The operator as users have it: its images and its install file in a real cluster, with the rights that are shipped and
//! restricted Pod Security everywhere. `cargo xtask test e2e` makes the images and runs this.
//!
//! One cluster serves all tests; each has a namespace. What disturbs others runs alone ([`place::alone`]).
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test says why it is skipped, and fails by panicking"
)]

mod cli;
mod forge;
mod order;
mod place;
mod pods;
mod stacks;
mod system;

mod backends;
mod canary;
mod deletion;
mod examples;
mod faults;
mod figures;
mod handover;
mod languages;
mod life;
mod rights;
mod scenarios;
mod sources;
