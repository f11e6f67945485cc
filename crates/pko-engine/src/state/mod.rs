//! The file backend, in Pulumi's own layout: checkpoints, locks, history.

pub mod backend;
pub mod checkpoint;
pub mod file;
pub mod history;
pub mod lock;
pub mod sealing;
