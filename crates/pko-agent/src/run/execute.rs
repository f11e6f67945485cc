//! One run from its beginning to its result.

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

/// What a run does.
#[derive(Debug, Clone)]
pub(crate) struct RunRequest {
    pub(crate) stack: StackRequest,
    /// If set, what the stack's configuration and environments are to be.
    pub(crate) config: Option<(Vec<ConfigItem>, Vec<String>)>,
    pub(crate) operation: Operation,
    pub(crate) time_limit: Option<Duration>,
    /// Runs of this stack that are lost and may have left a lock behind.
    pub(crate) lost_runs: Vec<LostRun>,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct RunOutcome {
    pub(super) state: RunPhase,
    pub(super) result: RunResult,
}

/// Runs to the end. Whatever goes wrong is in the result.
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
    let freed = free(&session, &outcome, recovery).await;
    if freed.is_some() {
        outcome = attempt(&mut session, request, event_log, observer).await;
    }
    if let Some(limit) = limit {
        limit.abort();
    }
    let mut ending = match outcome {
        Ok(operated) => succeed(&mut session, request, operated).await,
        Err(error) => Err(advised(error, &session, recovery)),
    }
    .unwrap_or_else(|error| failed(&request.operation, &error, stop.signal().reason()));
    let summary = ending.result.summary.get_or_insert_default();
    if summary.message.is_empty() {
        request.operation.message().clone_into(&mut summary.message);
    }
    summary
        .start_time
        .get_or_insert(to_proto_timestamp(started));
    summary
        .end_time
        .get_or_insert(to_proto_timestamp(Timestamp::now()));
    ending.result.project_info = Some(project.clone());
    ending.result.notes = freed.into_iter().collect();
    ending
}

/// Prepares the stack and runs the operation; once more if the stack turns out to be gone.
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
        .operate(&request.operation, stack, event_log, observer)
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

/// Removes the lock that a dead run of ours has left behind, if that is why it failed; says what was done.
///
/// # Caveats
/// The CLI can only remove all locks at once. Nobody gets one beside the dead one, so there is no other to lose, unless
/// somebody has removed the dead one by hand and taken the stack since the CLI complained, a moment ago.
async fn free(
    session: &CliSession,
    outcome: &Result<OperationOutcome, WorkspaceError>,
    recovery: &LockRecovery<'_>,
) -> Option<String> {
    let failure = outcome.as_ref().err()?.failure()?;
    recovery.free(session, failure).await
}

/// With what can be done about a lock that stays.
fn advised(
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

/// What is left to do after the operation went well.
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
            // The update itself went well, and must not be repeated for this.
            Err(error) => {
                tracing::warn!(error = error.text(), "The outputs could not be read");
                let warning = format!("warning: {}\n", error.text());
                result.stderr.push_str(&warning);
            }
        }
    }
    if matches!(request.operation, Operation::Preview(_)) {
        let planned = operated.digest.outputs.as_ref().map(outputs::planned);
        result.outputs = planned.unwrap_or_default();
    }
    // A preview is in no history.
    let noted = !matches!(request.operation, Operation::Preview(_));
    if let (Some(summary), true, "") = (&mut result.summary, noted, request.operation.message()) {
        // Not worth more than a line in the log either.
        summary.message = session
            .read_update_message(stack)
            .await
            .unwrap_or_else(|error| {
                tracing::warn!(error = error.text(), "The message could not be read");
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

fn failed(
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
    let mut ending = unsuccessful(state, class, text);
    if let Some(failure) = error.failure() {
        let output = failure.output();
        ending.result.permalink = permalink(&output.stdout);
        ending.result.stdout.clone_from(&output.stdout);
        ending.result.stderr.clone_from(&output.stderr);
        if let Some(error) = &mut ending.result.error {
            error.info = failure.info();
            error.advice = failure.advice().map(str::to_owned);
            error.exit_code = Some(failure.exit_code());
        }
    }
    ending
}

/// An ending without a success.
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

/// Where a person can look at the update, if the CLI says so.
fn permalink(stdout: &str) -> Option<String> {
    const BEFORE: [&str; 4] = [
        "View Live: ",
        "View in Browser: ",
        "View in Browser (Ctrl+O): ",
        "Permalink: ",
    ];
    let found = BEFORE.iter().find_map(|before| stdout.split_once(before));
    found
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
            let ending = failed(&operation, &WorkspaceError::NoStackSelected, stopped);
            assert_eq!(ending.state, state);
            assert_eq!(ending.result.error.unwrap().message, text);
        }
    }
}
