//! The decisions against the programs of others.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod argo;
mod merge;
mod oracle;
mod shape;
