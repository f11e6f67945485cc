//! Runs that belong to the agent: started once, kept on disk, watched by whoever wants to.

mod execute;
mod holder;
mod journal;
mod orphan;
mod proof;
mod record;
mod recovery;
mod registry;
mod retention;
mod watch;

pub(crate) use execute::RunRequest;
pub(crate) use journal::{Journal, JournalError};
pub(crate) use proof::LostRun;
pub(crate) use record::Record;
pub(crate) use registry::{Runs, RunsError};
