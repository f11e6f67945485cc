//! The operator's decisions. Nothing here does I/O, reads the clock or generates a random name.
//!
//! Each kind is a small state machine: the *observed* state, a table of *rules* (the first match
//! wins), and a [`Step`] as the outcome. A step is a *read* or a *write* whose response a later
//! rule needs, or a *plan* of effects to perform in order. See [`step`] for the driver's contract.
#![expect(missing_docs, reason = "only this workspace links the crate")]

pub mod blocked;
pub mod cached_metadata;
pub mod condition_set;
pub mod finalizers;
pub mod leadership;
mod list_limit;
pub mod merge;
pub mod plain_text;
pub mod program;
pub mod redaction;
mod reduced_status;
pub mod run_queue;
pub mod stack;
pub mod step;
#[cfg(test)]
mod tests;
pub mod update;
pub mod workspace;

pub use blocked::Blocked;
pub use reduced_status::reduced_status;
pub use step::{Event, Fact, Machine, Plan, Requeue, Rule, Step, StepOf};
