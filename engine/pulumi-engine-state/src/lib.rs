//! Stack states in Pulumi's own formats and layout, in a folder or in a bucket.
//!
//! [`backend`] reads and writes the files: checkpoints, locks, history, tags. [`checkpoint`] is
//! their format, [`sealing`] encrypts the secrets in them.

#![expect(missing_docs, reason = "only this workspace links it")]

pub mod backend;
mod bucket;
pub mod checkpoint;
mod cloud;
pub mod file;
pub mod history;
pub mod integrity;
pub mod lock;
pub mod sealing;
pub mod secrets;
pub mod tags;
