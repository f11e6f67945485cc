//! The decisions against the programs of others.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod argo;
mod merge;
