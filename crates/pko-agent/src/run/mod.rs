//! Runs that the agent owns: executed once, journaled on disk, watched by any number of callers.

mod execute;
mod journal;
mod lock_holder;
mod lock_ownership;
mod lock_recovery;
mod process;
mod record;
mod registry;
mod restore;
mod retention;
mod stored_run;
mod watch;
mod worker;

pub(crate) use execute::RunRequest;
pub(crate) use journal::{Journal, JournalError};
pub(crate) use lock_ownership::LostRun;
pub(crate) use record::RunRecord;
pub(crate) use registry::{Runs, RunsError};
