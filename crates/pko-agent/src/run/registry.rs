//! All runs of the agent: starts them one after the other, and keeps them until they are
//! acknowledged.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    io,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use pko_auth::Mask;
use pko_proto::run::{ErrorClass, Run, RunResult};
use tokio::sync::{mpsc, watch};

use super::{
    Journal, JournalError, RunRecord,
    execute::{self, RunOutcome, RunRequest},
    lock_ownership::OwnRun,
    record::RunPhase,
    retention,
    stored_run::StoredRuns,
    worker,
};
use crate::{
    pulumi::{StopReason, StopSource},
    workspace::{Workspace, error_chain},
};

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunsError {
    #[error(
        "a run id must have 1 to 128 letters, digits, `-`, `_` and `.`, and must not begin with a dot"
    )]
    BadId,
    #[error("run `{0}` not found")]
    Unknown(String),
    #[error("run `{0}` has not finished")]
    NotFinished(String),
    #[error("the result of run `{0}` is no longer stored")]
    Pruned(String),
    #[error("the agent is shutting down")]
    Stopping,
    #[error(
        "the run was not started, because the agent cannot record it; free space on the volume of that folder, or replace the workspace's pod"
    )]
    NotRecorded(#[source] JournalError),
    #[error(
        "failed to read {} of run `{run_id}`; the run is not started again. If this does not pass, replace the workspace's pod", file.display()
    )]
    Unreadable {
        run_id: String,
        file: PathBuf,
        source: io::Error,
    },
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl RunsError {
    /// The error with its causes.
    pub(crate) fn text(&self) -> String {
        error_chain(self)
    }
}

type RunsResult<T> = Result<T, RunsError>;

pub(super) struct RunEntry {
    pub(super) run_id: String,
    pub(super) record: watch::Sender<RunRecord>,
    pub(super) stop: StopSource,
    /// Taken when the run starts: it may contain secrets, and is not needed again.
    request: Mutex<Option<RunRequest>>,
    /// Set by the task that finishes the run: the worker, or a cancellation before it.
    claimed: AtomicBool,
    /// A result that could not be written to the journal.
    unsaved: OnceLock<RunResult>,
}

pub(crate) struct Runs {
    pub(super) workspace: Arc<Workspace>,
    pub(super) journal: Journal,
    /// Oldest first.
    entries: Mutex<Vec<Arc<RunEntry>>>,
    /// Ids in the journal whose records could not be read.
    pub(super) unreadable: Mutex<BTreeSet<String>>,
    pub(super) queue: mpsc::UnboundedSender<Arc<RunEntry>>,
    stopping: AtomicBool,
    /// Ids of runs that panic.
    #[cfg(test)]
    pub(super) panics: Mutex<BTreeSet<String>>,
}

impl Runs {
    /// Restores the runs of the journal. Those that a previous agent did not finish are
    /// interrupted.
    pub(crate) fn open(workspace: Arc<Workspace>, journal: Journal) -> RunsResult<Arc<Self>> {
        let (queue, waiting) = mpsc::unbounded_channel();
        let StoredRuns {
            recorded,
            damaged,
            unreadable,
        } = journal.stored_runs()?;
        let runs = Arc::new(Self {
            workspace,
            journal,
            entries: Mutex::default(),
            unreadable: Mutex::new(unreadable.into_iter().collect()),
            queue,
            stopping: AtomicBool::new(false),
            #[cfg(test)]
            panics: Mutex::default(),
        });
        for (run_id, why) in &damaged {
            runs.restore_damaged(run_id, why);
        }
        for record in recorded {
            runs.restore(record);
        }
        tokio::spawn(worker::execute_queue(Arc::clone(&runs), waiting));
        Ok(runs)
    }

    /// Starts a run. Idempotent: an existing run with this id is returned.
    pub(crate) fn start(
        &self,
        run_id: &str,
        request: RunRequest,
        is_call_scoped: bool,
    ) -> RunsResult<Run> {
        if !is_valid_id(run_id) {
            return Err(RunsError::BadId);
        }
        self.reread(run_id)?;
        let mut entries = self.entries();
        if let Some(entry) = entries.iter().find(|entry| entry.run_id == run_id) {
            let entry = Arc::clone(entry);
            drop(entries);
            return self.describe(&entry);
        }
        if self.stopping.load(Ordering::SeqCst) {
            return Err(RunsError::Stopping);
        }
        let record = new_record(run_id, &request, is_call_scoped);
        let recorded = self.journal.create_record(&record);
        recorded.map_err(RunsError::NotRecorded)?;
        let entry = Arc::new(RunEntry::new(record, Some(request), false));
        entries.push(Arc::clone(&entry));
        // The worker lives as long as `self`.
        self.queue
            .send(Arc::clone(&entry))
            .map_err(|_| RunsError::Stopping)?;
        drop(entries);
        tracing::info!(run = run_id, "Run queued");
        self.describe(&entry)
    }

    pub(crate) fn get(&self, run_id: &str) -> RunsResult<Run> {
        self.describe(self.entry(run_id)?.as_ref())
    }

    /// All runs, oldest first, without their results.
    pub(crate) fn list(&self) -> Vec<Run> {
        let entries = self.entries();
        let owned = entries.iter().map(|entry| entry.record.borrow());
        let owned = owned.filter(|record| !record.is_call_scoped);
        owned.map(|record| record.to_proto(None)).collect()
    }

    /// Stops a run. A finished one does not change.
    pub(crate) fn cancel(&self, run_id: &str, reason: StopReason) -> RunsResult<Run> {
        let entry = self.entry(run_id)?;
        self.stop(&entry, reason);
        self.describe(&entry)
    }

    /// Removes a result that the caller has stored.
    pub(crate) fn acknowledge(&self, run_id: &str) -> RunsResult<()> {
        self.acknowledge_entry(self.entry(run_id)?.as_ref())
    }

    pub(super) fn acknowledge_entry(&self, entry: &RunEntry) -> RunsResult<()> {
        let mut record = entry.record.borrow().clone();
        let run_id = &entry.run_id;
        if !record.state.is_final() {
            return Err(RunsError::NotFinished(run_id.clone()));
        }
        if record.is_call_scoped {
            self.entries().retain(|entry| entry.run_id != *run_id);
            self.journal.remove(run_id);
            return Ok(());
        }
        record.acknowledged = true;
        self.journal.write_record(&record)?;
        self.journal.remove_result(run_id);
        entry.record.send_replace(record);
        self.prune();
        Ok(())
    }

    /// Stops all runs, and waits until they have finished.
    pub(crate) async fn shut_down(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        let entries = self.entries().clone();
        for entry in &entries {
            self.stop(entry, StopReason::Shutdown);
        }
        for entry in entries {
            let mut record = entry.record.subscribe();
            // On an error the run has been removed, so it has finished, too.
            let _ = record.wait_for(|record| record.state.is_final()).await;
        }
    }

    /// The result of a finished run.
    pub(super) fn result(&self, entry: &RunEntry) -> RunsResult<RunResult> {
        let result = match entry.unsaved.get() {
            Some(result) => Some(result.clone()),
            None => self.journal.result(&entry.run_id)?,
        };
        result.ok_or_else(|| RunsError::Pruned(entry.run_id.clone()))
    }

    pub(super) fn entry(&self, run_id: &str) -> RunsResult<Arc<RunEntry>> {
        self.reread(run_id)?;
        let entries = self.entries();
        let entry = entries.iter().find(|entry| entry.run_id == run_id).cloned();
        entry.ok_or_else(|| RunsError::Unknown(run_id.to_owned()))
    }

    pub(super) fn entries(&self) -> MutexGuard<'_, Vec<Arc<RunEntry>>> {
        self.entries.lock()
    }

    fn describe(&self, entry: &RunEntry) -> RunsResult<Run> {
        let record = entry.record.borrow().clone();
        if !record.state.is_final() {
            return Ok(record.to_proto(None));
        }
        match self.result(entry) {
            Ok(result) => Ok(record.to_proto(Some(result))),
            Err(RunsError::Pruned(_)) => Ok(record.to_proto(None)),
            Err(error) => Err(error),
        }
    }

    fn stop(&self, entry: &RunEntry, reason: StopReason) {
        entry.stop.stop(reason);
        if entry.claim() {
            let state = match reason {
                StopReason::Shutdown => RunPhase::Interrupted,
                _ => RunPhase::Canceled,
            };
            let text = "the run was stopped before it started".to_owned();
            self.finish(
                entry,
                execute::unsuccessful(state, ErrorClass::Canceled, text),
            );
        }
    }

    /// The stack's finished runs. The CLI of a finished run has exited.
    pub(super) fn finished_runs_of(&self, stack: &str) -> Vec<OwnRun> {
        let entries = self.entries();
        let records = entries.iter().map(|entry| entry.record.borrow().clone());
        let of_stack = records.filter(|record| record.stack == stack && record.state.is_final());
        let own_run = |record: RunRecord| {
            Some(OwnRun {
                process: record.process?.id(),
                begun: record.started_at?,
                ended: record.finished_at?,
                run_id: record.run_id,
            })
        };
        of_stack.filter_map(own_run).collect()
    }

    /// Changes a run's record in memory and on disk.
    pub(super) fn update_record(
        &self,
        entry: &RunEntry,
        change: impl FnOnce(&mut RunRecord),
    ) -> Result<(), JournalError> {
        entry.record.send_modify(change);
        let record = entry.record.borrow().clone();
        self.journal.write_record(&record)
    }

    /// Journals a run's outcome, then publishes it.
    pub(super) fn finish(&self, entry: &RunEntry, mut ending: RunOutcome) {
        mask_texts(&mut ending.result, &self.workspace.cli.mask);
        let mut record = entry.record.borrow().clone();
        record.state = ending.state;
        record.finished_at = Some(Timestamp::now());
        let written = self
            .journal
            .write_result(&entry.run_id, &ending.result)
            .and_then(|()| self.journal.write_record(&record));
        if let Err(error) = written {
            let error = error_chain(&error);
            tracing::error!(run = entry.run_id, error, "Failed to write the journal");
            // A run finishes once.
            let _ = entry.unsaved.set(ending.result);
        }
        tracing::info!(run = entry.run_id, state = ?record.state, events = record.events, "Run finished");
        entry.record.send_replace(record);
        self.prune();
    }

    /// Removes runs beyond the retention limits.
    fn prune(&self) {
        let mut entries = self.entries();
        let mut finished: Vec<RunRecord> = entries
            .iter()
            .map(|entry| entry.record.borrow().clone())
            .filter(|record| record.state.is_final() && !record.is_call_scoped)
            .collect();
        finished.sort_by_key(|record| record.finished_at);
        let kept: Vec<_> = finished
            .iter()
            .map(|record| self.journal.measure(record))
            .collect();
        let excess = retention::runs_to_prune(&kept);
        excess
            .events
            .iter()
            .for_each(|id| self.journal.remove_events(id));
        excess
            .results
            .iter()
            .for_each(|id| self.journal.remove_result(id));
        for id in &excess.ids {
            self.journal.remove(id);
            entries.retain(|entry| entry.run_id != *id);
        }
    }
}

impl RunEntry {
    pub(super) fn new(record: RunRecord, request: Option<RunRequest>, claimed: bool) -> Self {
        Self {
            run_id: record.run_id.clone(),
            record: watch::Sender::new(record),
            stop: StopSource::new(),
            request: Mutex::new(request),
            claimed: AtomicBool::new(claimed),
            unsaved: OnceLock::new(),
        }
    }

    pub(super) fn take_request(&self) -> Option<RunRequest> {
        let mut request = self.request.lock();
        request.take()
    }

    /// True for the first caller.
    pub(super) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::SeqCst)
    }
}

pub(super) fn new_record(run_id: &str, request: &RunRequest, is_call_scoped: bool) -> RunRecord {
    RunRecord {
        run_id: run_id.to_owned(),
        kind: (&request.operation).into(),
        stack: request.stack.name.clone(),
        state: RunPhase::Queued,
        created_at: Timestamp::now(),
        started_at: None,
        finished_at: None,
        events: 0,
        acknowledged: false,
        process: None,
        is_call_scoped,
    }
}

/// Masks everything that people read. The outputs are values, which are secret or not by
/// themselves.
fn mask_texts(result: &mut RunResult, mask: &Mask) {
    let error = result.error.iter_mut();
    let error = error.flat_map(|error| {
        [&mut error.message]
            .into_iter()
            .chain(error.advice.as_mut())
    });
    let summary = result
        .summary
        .iter_mut()
        .map(|summary| &mut summary.message);
    let texts = [&mut result.stdout, &mut result.stderr].into_iter();
    for text in texts.chain(&mut result.notes).chain(error).chain(summary) {
        if let Cow::Owned(masked) = mask.apply(text) {
            *text = masked;
        }
    }
}

fn is_valid_id(run_id: &str) -> bool {
    let legal = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    (1..=128).contains(&run_id.len()) && run_id.chars().all(legal) && !run_id.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_is_safe_as_folder_name() {
        for good in ["a", "0b5a5ff4-7a0e-4d3c-9a52-1f1f1f1f1f1f", "a.b_c"] {
            assert!(is_valid_id(good), "{good}");
        }
        for bad in ["", ".", "..", "../x", "a/b", "a b", &"x".repeat(129)] {
            assert!(!is_valid_id(bad), "{bad}");
        }
    }
}
