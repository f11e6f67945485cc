//! Runs that belong to the agent: started once, kept on disk, watched by whoever wants to.

mod execute;
mod journal;
mod lock_holder;
mod lock_ownership;
mod lock_recovery;
mod process;
mod record;
mod registry;
mod retention;
mod watch;

pub(crate) use execute::RunRequest;
pub(crate) use journal::{Journal, JournalError};
pub(crate) use lock_ownership::LostRun;
pub(crate) use record::RunRecord;
pub(crate) use registry::{Runs, RunsError};
