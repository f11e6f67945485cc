//! All runs of the agent: starts them one after the other, and keeps them until they are acknowledged.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use pko_proto::{
    convert::to_proto_timestamp,
    run::{ErrorClass, Run, RunResult},
};
use tokio::sync::{mpsc, watch};

use super::{
    Journal, JournalError, RunRecord,
    execute::{self, RunOutcome, RunRequest},
    lock_ownership::OwnRun,
    lock_recovery::LockRecovery,
    process::ProcessIdentity,
    record::RunPhase,
    retention,
};
use crate::{
    pulumi::{StopReason, StopSource, event_log::EventDigest},
    workspace::{CliSession, Observer, Workspace},
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
    #[error(transparent)]
    Journal(#[from] JournalError),
}

type RunsResult<T> = Result<T, RunsError>;

pub(super) struct RunEntry {
    pub(super) run_id: String,
    pub(super) record: watch::Sender<RunRecord>,
    stop: StopSource,
    /// Taken when the run starts: it may contain secrets, and is not needed again.
    request: Mutex<Option<RunRequest>>,
    /// Set by the task that finishes the run: the worker, or a cancellation before it.
    claimed: AtomicBool,
    /// A result that could not be written to the journal.
    unsaved: OnceLock<RunResult>,
}

pub(crate) struct Runs {
    workspace: Arc<Workspace>,
    pub(super) journal: Journal,
    /// Oldest first.
    entries: Mutex<Vec<Arc<RunEntry>>>,
    queue: mpsc::UnboundedSender<Arc<RunEntry>>,
    stopping: AtomicBool,
}

impl Runs {
    /// Restores the runs of the journal. Those that a previous agent did not finish are interrupted.
    pub(crate) fn open(workspace: Arc<Workspace>, journal: Journal) -> RunsResult<Arc<Self>> {
        let (queue, waiting) = mpsc::unbounded_channel();
        let records = journal.records()?;
        let runs = Arc::new(Self {
            workspace,
            journal,
            entries: Mutex::default(),
            queue,
            stopping: AtomicBool::new(false),
        });
        for record in records {
            runs.restore(record);
        }
        tokio::spawn(execute_queue(Arc::clone(&runs), waiting));
        Ok(runs)
    }

    fn restore(&self, record: RunRecord) {
        let ended = record.state.is_final();
        let process = record.process.filter(|process| process.is_alive());
        let entry = Arc::new(RunEntry::new(record, None, true));
        self.entries().push(Arc::clone(&entry));
        match process {
            _ if ended => {}
            None => self.mark_interrupted(&entry),
            // The worker lives as long as `self`.
            Some(_) => drop(self.queue.send(entry)),
        }
    }

    /// Finishes a run that a previous agent started.
    fn mark_interrupted(&self, entry: &RunEntry) {
        tracing::warn!(
            run = entry.run_id,
            "Run was interrupted by the end of a previous agent"
        );
        let digest = self.journal.digest(&entry.run_id);
        entry
            .record
            .send_modify(|record| record.events = digest.lines);
        let record = entry.record.borrow().clone();
        self.finish(entry, interrupted_outcome(&record, &digest));
        if record.is_call_scoped
            && let Err(error) = self.acknowledge(&record.run_id)
        {
            tracing::warn!(%error, "Failed to remove the run of a finished call");
        }
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
        self.journal.write_record(&record)?;
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
        let entry = self.entry(run_id)?;
        let mut record = entry.record.borrow().clone();
        if !record.state.is_final() {
            return Err(RunsError::NotFinished(run_id.to_owned()));
        }
        if record.is_call_scoped {
            self.entries().retain(|entry| entry.run_id != run_id);
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
        let entries = self.entries();
        let entry = entries.iter().find(|entry| entry.run_id == run_id).cloned();
        entry.ok_or_else(|| RunsError::Unknown(run_id.to_owned()))
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Arc<RunEntry>>> {
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

    async fn process_entry(&self, entry: &RunEntry) {
        let session = self.workspace.open_session(entry.stop.signal()).await;
        let Some(request) = entry.take_request() else {
            let process = entry.record.borrow().process;
            if let Some(process) = process {
                tracing::warn!(run = entry.run_id, "Stopping a run of a previous agent");
                process.stop(self.workspace.cli.patience).await;
            }
            return self.mark_interrupted(entry);
        };
        if entry.claim() {
            self.execute(entry, &request, session).await;
        }
    }

    async fn execute(&self, entry: &RunEntry, request: &RunRequest, session: CliSession) {
        self.update_record(entry, |record| {
            record.state = RunPhase::Running;
            record.started_at = Some(Timestamp::now());
        });
        tracing::info!(
            run = entry.run_id,
            stack = request.stack.name,
            "Run started"
        );
        let recovery = LockRecovery {
            stack: &request.stack.name,
            lost: &request.lost_runs,
            own: &|| self.finished_runs_of(&request.stack.name),
        };
        let mut ending = execute::execute(
            session,
            request,
            self.workspace.project_info(),
            &self.journal.events(&entry.run_id),
            &entry.stop,
            &Progress { runs: self, entry },
            &recovery,
        )
        .await;
        if ending.state != RunPhase::Succeeded {
            let digest = self.journal.digest(&entry.run_id);
            ending.result.resource_changes = digest.changes().clone();
        }
        self.finish(entry, ending);
    }

    /// The stack's finished runs. The CLI of a finished run has exited.
    fn finished_runs_of(&self, stack: &str) -> Vec<OwnRun> {
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
    fn update_record(&self, entry: &RunEntry, change: impl FnOnce(&mut RunRecord)) {
        entry.record.send_modify(change);
        let record = entry.record.borrow().clone();
        if let Err(error) = self.journal.write_record(&record) {
            tracing::error!(run = entry.run_id, %error, "Failed to write the journal");
        }
    }

    /// Journals a run's outcome, then publishes it.
    fn finish(&self, entry: &RunEntry, ending: RunOutcome) {
        let mut record = entry.record.borrow().clone();
        record.state = ending.state;
        record.finished_at = Some(Timestamp::now());
        let written = self
            .journal
            .write_result(&entry.run_id, &ending.result)
            .and_then(|()| self.journal.write_record(&record));
        if let Err(error) = written {
            tracing::error!(run = entry.run_id, %error, "Failed to write the journal");
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

/// Executes runs one after the other, in the order in which they were started.
async fn execute_queue(runs: Arc<Runs>, mut waiting: mpsc::UnboundedReceiver<Arc<RunEntry>>) {
    while let Some(entry) = waiting.recv().await {
        runs.process_entry(&entry).await;
    }
}

struct Progress<'a> {
    runs: &'a Runs,
    entry: &'a RunEntry,
}

impl Observer for Progress<'_> {
    fn on_process(&self, id: u32) {
        self.runs.update_record(self.entry, |record| {
            record.process = ProcessIdentity::from_pid(id);
        });
    }

    fn on_events(&self, count: u64) {
        self.entry
            .record
            .send_modify(|record| record.events = count);
    }
}

impl RunEntry {
    fn new(record: RunRecord, request: Option<RunRequest>, claimed: bool) -> Self {
        Self {
            run_id: record.run_id.clone(),
            record: watch::Sender::new(record),
            stop: StopSource::new(),
            request: Mutex::new(request),
            claimed: AtomicBool::new(claimed),
            unsaved: OnceLock::new(),
        }
    }

    fn take_request(&self) -> Option<RunRequest> {
        let mut request = self.request.lock();
        request.take()
    }

    /// True for the first caller.
    fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::SeqCst)
    }
}

fn new_record(run_id: &str, request: &RunRequest, is_call_scoped: bool) -> RunRecord {
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

/// The outcome of a run whose agent ended.
fn interrupted_outcome(record: &RunRecord, digest: &EventDigest) -> RunOutcome {
    let text = match record.started_at {
        Some(_) => format!(
            "the agent ended during the run, after {} events{}{}; completed changes are in the stack's state",
            digest.lines,
            completed_changes(digest),
            resources_in_progress(digest),
        ),
        None => "the agent ended before the run started; nothing was changed".to_owned(),
    };
    let mut ending = execute::unsuccessful(RunPhase::Interrupted, ErrorClass::Interrupted, text);
    ending.result.resource_changes = digest.changes().clone();
    if let Some(summary) = &mut ending.result.summary {
        summary.start_time = record.started_at.map(to_proto_timestamp);
    }
    ending
}

fn completed_changes(digest: &EventDigest) -> String {
    let change = |(operation, count): (&String, &i32)| format!("{operation} {count}");
    let changes: Vec<String> = digest.changes().iter().map(change).collect();
    if changes.is_empty() {
        return String::new();
    }
    format!(" (completed: {})", changes.join(", "))
}

/// A few of the resources that may be incomplete.
fn resources_in_progress(digest: &EventDigest) -> String {
    const SHOWN: usize = 5;
    let names: Vec<&str> = digest.in_progress.iter().map(String::as_str).collect();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match names.get(..names.len().min(SHOWN)) {
        Some([]) | None => String::new(),
        Some(shown) => format!(", with {}{more} in progress", shown.join(", ")),
    }
}

fn is_valid_id(run_id: &str) -> bool {
    let legal = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    (1..=128).contains(&run_id.len()) && run_id.chars().all(legal) && !run_id.starts_with('.')
}

#[cfg(test)]
mod tests {
    use pko_proto::agent::UpRequest;

    use super::*;
    use crate::{pulumi::Operation, workspace::StackRequest};

    #[test]
    fn interrupted_run_message_has_progress() {
        let mut digest = EventDigest::default();
        let request = RunRequest {
            stack: StackRequest::default(),
            config: None,
            operation: Operation::Up(UpRequest::default()),
            time_limit: None,
            lost_runs: Vec::new(),
        };
        let mut record = new_record("one", &request, false);
        let text = |record: &RunRecord, digest: &EventDigest| {
            let result = interrupted_outcome(record, digest).result;
            result.error.unwrap().message
        };
        let expected = "the agent ended before the run started; nothing was changed";
        assert_eq!(text(&record, &digest), expected);
        record.started_at = Some(Timestamp::now());
        let expected = "the agent ended during the run, after 0 events; \
                        completed changes are in the stack's state";
        assert_eq!(text(&record, &digest), expected);
        digest.add(br#"{"resourcePreEvent": {"metadata": {"op": "create", "urn": "urn:b"}}}"#);
        digest.add(br#"{"resOutputsEvent": {"metadata": {"op": "create", "urn": "urn:a"}}}"#);
        let expected = "the agent ended during the run, after 2 events (completed: create 1), \
                        with urn:b in progress; completed changes are in the stack's state";
        assert_eq!(text(&record, &digest), expected);
        let changes = interrupted_outcome(&record, &digest)
            .result
            .resource_changes;
        assert_eq!(changes, [("create".to_owned(), 1)].into());
    }

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
