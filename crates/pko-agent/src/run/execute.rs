//! Executes one run: prepares the stack, runs the operation, and builds the result.

use std::{path::Path, time::Duration};

use jiff::Timestamp;
use pko_proto::{
    agent::{ConfigItem, ProjectInfo, UpdateSummary},
    convert::to_proto_timestamp,
    run::{ErrorClass, RunError, RunResult},
};

use super::{lock_ownership::LostRun, lock_recovery::LockRecovery, record::RunPhase};
use crate::{
    pulumi::{CliFailure, Operation, StopReason, StopSource, outputs},
    workspace::{CliSession, Observer, OperationOutcome, StackRequest, WorkspaceError},
};

#[derive(Debug, Clone)]
pub(crate) struct RunRequest {
    pub(crate) stack: StackRequest,
    /// The stack's configuration and environments, if the run sets them.
    pub(crate) config: Option<(Vec<ConfigItem>, Vec<String>)>,
    pub(crate) operation: Operation,
    pub(crate) time_limit: Option<Duration>,
    /// Lost runs of this stack, which may have left a lock behind.
    pub(crate) lost_runs: Vec<LostRun>,
}

#[derive(Debug)]
pub(super) struct RunOutcome {
    pub(super) state: RunPhase,
    pub(super) result: RunResult,
}

/// Executes a run. Errors are part of the outcome.
pub(super) async fn execute(
    mut session: CliSession,
    request: &RunRequest,
    project: &ProjectInfo,
    event_log: &Path,
    stop: &StopSource,
    observer: &impl Observer,
    recovery: &LockRecovery<'_>,
) -> RunOutcome {
    let started = Timestamp::now();
    let limit = request.time_limit.map(|limit| {
        let stop = stop.clone();
        tokio::spawn(async move {
            tokio::time::sleep(limit).await;
            stop.stop(StopReason::TimeLimit);
        })
    });
    let mut outcome = attempt(&mut session, request, event_log, observer).await;
    let removed_locks = release_locks(&session, &outcome, recovery).await;
    if removed_locks.is_some() {
        outcome = attempt(&mut session, request, event_log, observer).await;
    }
    if let Some(limit) = limit {
        limit.abort();
    }
    let mut outcome = match outcome {
        Ok(operated) => succeed(&mut session, request, operated).await,
        Err(error) => Err(with_lock_advice(error, &session, recovery)),
    }
    .unwrap_or_else(|error| failed_outcome(&request.operation, &error, stop.signal().reason()));
    let summary = outcome.result.summary.get_or_insert_default();
    if summary.message.is_empty() {
        request.operation.message().clone_into(&mut summary.message);
    }
    summary
        .start_time
        .get_or_insert(to_proto_timestamp(started));
    summary
        .end_time
        .get_or_insert(to_proto_timestamp(Timestamp::now()));
    outcome.result.project_info = Some(project.clone());
    outcome.result.notes = removed_locks.into_iter().collect();
    outcome
}

/// Prepares the stack and runs the operation. Retries once if the stack was deleted meanwhile.
async fn attempt(
    session: &mut CliSession,
    request: &RunRequest,
    event_log: &Path,
    observer: &impl Observer,
) -> Result<OperationOutcome, WorkspaceError> {
    match prepare_and_operate(session, request, event_log, observer).await {
        Err(WorkspaceError::Cli(failure)) if failure.is_stack_not_found() => {
            session.forget(&request.stack.name);
            if !request.stack.create {
                return Err(failure.into());
            }
            prepare_and_operate(session, request, event_log, observer).await
        }
        other => other,
    }
}

async fn prepare_and_operate(
    session: &mut CliSession,
    request: &RunRequest,
    event_log: &Path,
    observer: &impl Observer,
) -> Result<OperationOutcome, WorkspaceError> {
    let stack = &request.stack.name;
    session.ensure(&request.stack).await?;
    if let Some((items, environments)) = &request.config {
        session.configure(stack, items, environments).await?;
    }
    let operated = session
        .run_operation(&request.operation, stack, event_log, observer)
        .await?;
    if operated.finished.succeeded() {
        return Ok(operated);
    }
    Err(CliFailure::new(
        request.operation.process_failure_prefix(),
        operated.finished,
    )
    .into())
}

/// Removes the locks that dead runs of ours left behind, if they made the attempt fail. Returns a
/// note for the result.
///
/// # Caveats
/// The CLI removes all locks of a stack at once. No other process can hold one besides the dead
/// one, unless the dead one was removed by hand and the stack was locked again since the CLI's
/// error.
async fn release_locks(
    session: &CliSession,
    outcome: &Result<OperationOutcome, WorkspaceError>,
    recovery: &LockRecovery<'_>,
) -> Option<String> {
    let failure = outcome.as_ref().err()?.failure()?;
    recovery.release(session, failure).await
}

/// Adds advice about a lock that was not removed.
fn with_lock_advice(
    error: WorkspaceError,
    session: &CliSession,
    recovery: &LockRecovery<'_>,
) -> WorkspaceError {
    match error {
        WorkspaceError::Cli(failure) => {
            let advice = recovery.advice(session, &failure);
            failure.with_advice(advice).into()
        }
        other => other,
    }
}

/// Completes a successful operation: outputs, message, and the stack's removal.
async fn succeed(
    session: &mut CliSession,
    request: &RunRequest,
    operated: OperationOutcome,
) -> Result<RunOutcome, WorkspaceError> {
    session.ignore_stop();
    let stack = &request.stack.name;
    let mut result = RunResult {
        summary: Some(UpdateSummary {
            start_time: Some(to_proto_timestamp(operated.started)),
            end_time: Some(to_proto_timestamp(operated.ended)),
            result: "succeeded".to_owned(),
            ..Default::default()
        }),
        permalink: permalink(&operated.finished.stdout),
        stdout: operated.finished.stdout,
        stderr: operated.finished.stderr,
        resource_changes: operated.digest.changes().clone(),
        ..Default::default()
    };
    if matches!(request.operation, Operation::Up(_)) {
        match session.outputs(stack, &operated.digest).await {
            Ok(outputs) => result.outputs = outputs,
            // The update succeeded and must not be repeated because of this.
            Err(error) => {
                tracing::warn!(error = error.text(), "Failed to read the stack's outputs");
                let warning = format!("warning: {}\n", error.text());
                result.stderr.push_str(&warning);
            }
        }
    }
    if matches!(request.operation, Operation::Preview(_)) {
        let planned = operated.digest.outputs.as_ref().map(outputs::planned);
        result.outputs = planned.unwrap_or_default();
    }
    // Previews are not in the history.
    let has_history = !matches!(request.operation, Operation::Preview(_));
    if let (Some(summary), true, "") = (
        &mut result.summary,
        has_history,
        request.operation.message(),
    ) {
        // Not worth failing the run either.
        summary.message = session
            .read_update_message(stack)
            .await
            .unwrap_or_else(|error| {
                tracing::warn!(error = error.text(), "Failed to read the update's message");
                String::new()
            });
    }
    if request.operation.removes_stack() {
        session.remove(stack).await?;
    }
    Ok(RunOutcome {
        state: RunPhase::Succeeded,
        result,
    })
}

fn failed_outcome(
    operation: &Operation,
    error: &WorkspaceError,
    stopped: Option<StopReason>,
) -> RunOutcome {
    let (state, class) = match stopped {
        Some(StopReason::Shutdown) => (RunPhase::Interrupted, ErrorClass::Interrupted),
        Some(_) => (RunPhase::Canceled, ErrorClass::Canceled),
        None => (RunPhase::Failed, error.class()),
    };
    let note = match stopped {
        Some(StopReason::TimeLimit) => "the run took longer than its time limit: ",
        Some(StopReason::Shutdown) => "the agent was stopped: ",
        _ => "",
    };
    let text = format!("{}: {note}{}", operation.run_failure_prefix(), error.text());
    let mut outcome = unsuccessful(state, class, text);
    if let Some(failure) = error.failure() {
        let output = failure.output();
        outcome.result.permalink = permalink(&output.stdout);
        outcome.result.stdout.clone_from(&output.stdout);
        outcome.result.stderr.clone_from(&output.stderr);
        if let Some(error) = &mut outcome.result.error {
            error.info = failure.info();
            error.advice = failure.advice().map(str::to_owned);
            error.exit_code = Some(failure.exit_code());
        }
    }
    outcome
}

pub(super) fn unsuccessful(state: RunPhase, class: ErrorClass, message: String) -> RunOutcome {
    let result = if state == RunPhase::Canceled {
        "canceled"
    } else {
        "failed"
    };
    let summary = UpdateSummary {
        result: result.to_owned(),
        ..Default::default()
    };
    let error = RunError {
        message,
        class: class.into(),
        ..Default::default()
    };
    let result = RunResult {
        summary: Some(summary),
        error: Some(error),
        ..Default::default()
    };
    RunOutcome { state, result }
}

/// The update's page in Pulumi Cloud, if the CLI prints one.
fn permalink(stdout: &str) -> Option<String> {
    const BEFORE: [&str; 4] = [
        "View Live: ",
        "View in Browser: ",
        "View in Browser (Ctrl+O): ",
        "Permalink: ",
    ];
    let split = BEFORE.iter().find_map(|before| stdout.split_once(before));
    split
        .and_then(|(_, rest)| rest.split_once('\n'))
        .map(|(link, _)| link.to_owned())
}

#[cfg(test)]
mod tests {
    use pko_proto::agent::UpRequest;

    use super::*;

    #[test]
    fn permalink_ends_with_its_line() {
        let table = [
            ("a\nView Live: https://x/1\nb", Some("https://x/1")),
            (
                "View in Browser (Ctrl+O): https://x/2\n",
                Some("https://x/2"),
            ),
            ("Permalink: cut off", None),
            ("nothing", None),
        ];
        for (stdout, expected) in table {
            assert_eq!(permalink(stdout).as_deref(), expected);
        }
    }

    #[test]
    fn stop_reason_decides_run_phase() {
        let operation = Operation::Up(UpRequest::default());
        let table = [
            (None, RunPhase::Failed, "up failed: no stack is selected"),
            (
                Some(StopReason::Canceled),
                RunPhase::Canceled,
                "up failed: no stack is selected",
            ),
            (
                Some(StopReason::TimeLimit),
                RunPhase::Canceled,
                "up failed: the run took longer than its time limit: no stack is selected",
            ),
            (
                Some(StopReason::Shutdown),
                RunPhase::Interrupted,
                "up failed: the agent was stopped: no stack is selected",
            ),
        ];
        for (stopped, state, text) in table {
            let outcome = failed_outcome(&operation, &WorkspaceError::NoStackSelected, stopped);
            assert_eq!(outcome.state, state);
            assert_eq!(outcome.result.error.unwrap().message, text);
        }
    }
}
