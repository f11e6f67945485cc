//! Random inputs, ten seconds per kind (or `PKO_FUZZ_SECONDS`). `cargo xtask test --full` runs a
//! coverage-guided fuzzer on the same entry points.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod archives;
mod git;
mod ssh;
