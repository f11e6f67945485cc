//! Runs that belong to the agent: started once, kept on disk, watched by whoever wants to.

mod execute;
mod journal;
mod orphan;
mod record;
mod registry;
mod retention;
mod watch;

pub(crate) use execute::RunRequest;
pub(crate) use journal::{Journal, JournalError};
pub(crate) use record::Record;
pub(crate) use registry::{Runs, RunsError};
