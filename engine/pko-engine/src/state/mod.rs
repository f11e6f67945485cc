//! The backend, in Pulumi's own layout: checkpoints, locks, history; in a folder or a bucket.

pub mod backend;
pub mod bucket;
pub mod checkpoint;
pub mod cloud;
pub mod file;
pub mod history;
pub mod integrity;
pub mod lock;
pub mod sealing;
pub mod tags;
