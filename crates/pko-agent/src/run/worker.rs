//! Executes the runs, one after the other.

use std::{any::Any, sync::Arc};

use jiff::Timestamp;
use pko_proto::run::ErrorClass;
use tokio::sync::mpsc;

use super::{
    JournalError,
    execute::{self, RunOutcome, RunRequest},
    lock_recovery::LockRecovery,
    process::ProcessIdentity,
    record::RunPhase,
    registry::{RunEntry, Runs, RunsError},
};
use crate::workspace::{CliSession, Observer, error_chain};

/// Executes runs one after the other, in the order in which they were started.
pub(super) async fn execute_queue(
    runs: Arc<Runs>,
    mut waiting: mpsc::UnboundedReceiver<Arc<RunEntry>>,
) {
    while let Some(entry) = waiting.recv().await {
        let (own_runs, own_entry) = (Arc::clone(&runs), Arc::clone(&entry));
        let task = tokio::spawn(async move { own_runs.process_entry(&own_entry).await });
        if let Err(error) = task.await {
            let message = match error.try_into_panic() {
                Ok(panic) => panic_message(&*panic).to_owned(),
                Err(error) => error.to_string(),
            };
            runs.fail_panicked(&entry, &message).await;
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message")
}

struct Progress<'a> {
    runs: &'a Runs,
    entry: &'a RunEntry,
}

impl Observer for Progress<'_> {
    fn on_process(&self, id: u32) {
        let recorded = self.runs.update_record(self.entry, |record| {
            record.process = ProcessIdentity::from_pid(id);
        });
        // The run itself is recorded, and `pulumi` holds its lock already.
        if let Err(error) = recorded {
            let error = error_chain(&error);
            tracing::error!(
                run = self.entry.run_id,
                error,
                "Failed to write the journal"
            );
        }
    }

    fn on_events(&self, count: u64) {
        self.entry
            .record
            .send_modify(|record| record.events = count);
    }
}

impl Runs {
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
        let recorded = self.update_record(entry, |record| {
            record.state = RunPhase::Running;
            record.started_at = Some(Timestamp::now());
        });
        // Otherwise the next agent would report that nothing was changed.
        if let Err(error) = recorded {
            return self.finish(entry, not_recorded_outcome(error));
        }
        #[cfg(test)]
        assert!(
            !self.panics.lock().contains(&entry.run_id),
            "as the test requires"
        );
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

    /// Ends a run that panicked: it is this run's failure, and the others continue.
    async fn fail_panicked(&self, entry: &RunEntry, message: &str) {
        // It may quote what the run processed.
        let message = self.workspace.cli.mask.apply(message);
        tracing::error!(run = entry.run_id, %message, "A run panicked");
        let record = entry.record.borrow().clone();
        if record.state.is_final() {
            return;
        }
        if let Some(process) = record.process {
            process.stop(self.workspace.cli.patience).await;
        }
        self.workspace.forget_session_state().await;
        let text = format!(
            "the agent panicked during the run, which is a bug of the agent: {message}; completed changes are in the stack's state"
        );
        let mut outcome = execute::unsuccessful(RunPhase::Failed, ErrorClass::Unspecified, text);
        let digest = self.journal.digest(&entry.run_id);
        outcome.result.resource_changes = digest.changes().clone();
        self.finish(entry, outcome);
    }
}

/// The outcome of a run that could not be recorded as running.
fn not_recorded_outcome(error: JournalError) -> RunOutcome {
    let text = RunsError::NotRecorded(error).text();
    execute::unsuccessful(RunPhase::Failed, ErrorClass::Transient, text)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use pko_proto::{agent::UpRequest, run::Run};

    use super::*;
    use crate::{
        pulumi::{Cli, Operation, StopSource},
        run::Journal,
        workspace::{StackRequest, Workspace},
    };

    pub(in super::super) fn request() -> RunRequest {
        RunRequest {
            stack: StackRequest::default(),
            config: None,
            operation: Operation::Up(UpRequest::default()),
            time_limit: None,
            lost_runs: Vec::new(),
        }
    }

    async fn end_of(runs: &Runs, run_id: &str) -> Run {
        let mut record = runs.entry(run_id).unwrap().record.subscribe();
        record
            .wait_for(|record| record.state.is_final())
            .await
            .unwrap();
        runs.get(run_id).unwrap()
    }

    #[tokio::test]
    async fn panic_fails_only_its_run() {
        let folder = tempfile::tempdir().unwrap();
        let project = "name: demo\nruntime: yaml\n";
        std::fs::write(folder.path().join("Pulumi.yaml"), project).unwrap();
        let cli = Cli {
            program: "/bin/false".into(),
            folder: folder.path().to_owned(),
            environment: Vec::new(),
            mask: Arc::default(),
            patience: Duration::ZERO,
        };
        let data = folder.path().join("data");
        let workspace = Workspace::open(cli, 0, &data, StopSource::new()).unwrap();
        let runs = Runs::open(workspace, Journal::open(&data).unwrap()).unwrap();
        runs.panics.lock().insert("one".to_owned());
        for run_id in ["one", "two"] {
            runs.start(run_id, request(), false).unwrap();
        }
        for (run_id, panicked) in [("one", true), ("two", false)] {
            let run = end_of(&runs, run_id).await;
            assert_eq!(run.state(), pko_proto::run::RunState::Failed);
            let message = run.result.unwrap().error.unwrap().message;
            let text = "the agent panicked during the run";
            assert_eq!(message.contains(text), panicked, "{run_id}: {message}");
        }
    }
}
