//! Strange bytes and texts, ten seconds of each kind (`PKO_FUZZ_SECONDS` for another time). What is tried at
//! random here, `cargo xtask test --full` has a coverage-guided fuzzer try.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod archives;
mod git;
mod ssh;
