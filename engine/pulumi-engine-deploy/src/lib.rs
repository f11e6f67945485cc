//! Deploys programs: evaluates them, plans the steps, carries them out and saves the state.
//!
//! [`program`] evaluates, [`plan`] decides without I/O, [`deployment`] calls providers and saves.

#![expect(missing_docs, reason = "only this workspace links it")]

pub mod deployment;
pub mod plan;
pub mod program;
mod schedule;
