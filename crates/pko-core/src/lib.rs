//! The operator's decisions. Nothing here does I/O, reads the clock or makes up a name.
//!
//! Each kind is a small machine: a *world* (what is known), a table of *rules* (first match wins), and a
//! [`Step`] as the outcome: either one more *question* to ask, or a *plan* of effects to carry out in
//! order. The driver asks until there is a plan; see [`step`] for its contract.

pub mod condition_set;
pub mod error_class;
mod hex;
pub mod leadership;
pub mod merge;
pub mod plain_text;
pub mod program;
pub mod queue;
pub mod redaction;
pub mod stack;
pub mod step;
#[cfg(test)]
mod tests;
pub mod update;
pub mod workspace;

pub use error_class::Class;
pub use step::{Known, Machine, Plan, Requeue, Rule, Step};
