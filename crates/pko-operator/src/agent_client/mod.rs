//! Talking to the agent of a workspace.

mod account_tokens;
mod connection;
mod credentials;
mod manager_tokens;
mod request;

use std::time::Duration;

use pko_api::{Update, Workspace, auto::v1alpha1::ProjectInfo, names::reasons::UpdateReason};
use pko_core::update::{Output, Run, RunError, RunOutcome};
use pko_proto::{agent as wire, convert::from_proto_timestamp, run as runs};
use tonic::{Code, Status};

pub(crate) use account_tokens::{AccountTokens, ServiceAccountIssuer};
pub(crate) use connection::{ConnectError, Connection, connect};
pub(crate) use credentials::Credentials;
pub(crate) use manager_tokens::ManagerTokens;
pub(crate) use request::start_request;

/// Starts the run of an Update, or finds it. One that was `begun` is only looked for: an agent that does not know it
/// has lost it, and to start it again might be to run it twice.
pub(crate) async fn start(
    mut connection: Connection,
    update: &Update,
    workspace: &Workspace,
    begun: bool,
    local_path: impl Fn(&str) -> String,
) -> Result<Run, RunError> {
    let request = start_request(update, workspace, local_path).map_err(RunError::Refused)?;
    if !begun {
        let run = in_time(connection.runs.start_run(request)).await;
        return run.map(seen).map_err(|status| run_error(&status));
    }
    let run_id = request.run_id;
    match in_time(connection.runs.get_run(runs::GetRunRequest { run_id })).await {
        Ok(run) => Ok(seen(run)),
        Err(status) if status.code() == Code::NotFound => Ok(Run::Ended(lost())),
        Err(status) => Err(run_error(&status)),
    }
}

/// The outcome of a run that nobody knows any more.
fn lost() -> RunOutcome {
    RunOutcome {
        reason: Some(UpdateReason::Aborted.as_str().to_owned()),
        message: "the workspace does not know the operation: it was not begun, or the workspace was made anew meanwhile"
            .to_owned(),
        ..RunOutcome::default()
    }
}

fn run_error(status: &Status) -> RunError {
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented | Code::NotFound => {
            RunError::Refused(status.message().to_owned())
        }
        _ => RunError::Unreachable(text(status)),
    }
}

/// How long an agent may take to answer what it can answer at once.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// An agent's answer; none in time is one, too.
pub(crate) async fn in_time<T>(
    answer: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    let timeout = tokio::time::timeout(ANSWER_DEADLINE, answer);
    let late = |_| Status::deadline_exceeded("the agent did not answer in time");
    timeout
        .await
        .map_err(late)?
        .map(tonic::Response::into_inner)
}

/// A status as a sentence; never its details, which are bytes.
pub(crate) fn text(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

/// What the agent says of a run, in the words of the decisions.
fn seen(run: runs::Run) -> Run {
    use runs::RunState;

    match run.state() {
        // Recorded by an earlier pass, whose write this one has not seen: there is nothing to add to it.
        _ if run.acknowledged => Run::Running,
        RunState::Unspecified | RunState::Queued | RunState::Running => Run::Running,
        state => Run::Ended(outcome(state, run.result.unwrap_or_default())),
    }
}

fn outcome(state: runs::RunState, result: runs::RunResult) -> RunOutcome {
    let succeeded = state == runs::RunState::Succeeded;
    let summary = result.summary.unwrap_or_default();
    let error = result.error;
    let reason = match (state, error.as_ref().and_then(|error| error.info.as_ref())) {
        (runs::RunState::Canceled, _) => Some(UpdateReason::Canceled.as_str().to_owned()),
        (runs::RunState::Interrupted, _) => Some(UpdateReason::Aborted.as_str().to_owned()),
        (_, info) => info
            .map(|info| info.reason.clone())
            .filter(|reason| !reason.is_empty()),
    };
    RunOutcome {
        succeeded,
        reason,
        message: error.map_or(summary.message, |error| error.message),
        start: summary.start_time.as_ref().and_then(from_proto_timestamp),
        end: summary.end_time.as_ref().and_then(from_proto_timestamp),
        permalink: result.permalink,
        project: result.project_info.map(project),
        outputs: result
            .outputs
            .into_iter()
            .map(|(name, value)| (name, output(value)))
            .collect(),
    }
}

fn project(info: wire::ProjectInfo) -> ProjectInfo {
    ProjectInfo {
        name: info.name,
        runtime: info.runtime,
    }
}

fn output(value: wire::OutputValue) -> Output {
    Output {
        json: value.value,
        secret: value.secret,
    }
}
