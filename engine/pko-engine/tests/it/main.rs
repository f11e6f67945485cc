//! The binary as others see it: command lines in, exit codes, texts and files out.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends where it fails, helpers included"
)]

mod cloud;
mod config;
mod conformance;
mod crash;
mod fuzz;
mod interchange;
mod interruption;
mod kubernetes;
mod lifecycle;
mod listener;
mod operation_flags;
mod programs;
mod random;
mod refusal;
mod screens;
mod signals;
mod stage;
mod transcripts;
mod transfer;
mod unsaved_state;
