//! Calls of a workspace's agent.

mod authorized;
mod connection;
mod failure;
pub(super) mod outcome;
mod request;

use std::time::Duration;

use pko_core::{
    plain_text::plain,
    update::{RunError, RunProgress},
};
use pko_proto::run as runs;
use tonic::{Code, Status};

pub(crate) use connection::{ConnectError, Connection, connect};
pub(crate) use failure::{agent_error, is_transient};
pub(crate) use request::{config_item, start_request};

/// For calls that an agent can answer at once.
const CALL_DEADLINE: Duration = Duration::from_secs(10);

/// The response to a call about a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AgentReply {
    Run(RunProgress),
    /// The agent is upstream's, whose runs last as long as the call that started them.
    NotOwned,
}

/// Checks that the agent responds, by a call about a run that it may not know.
pub(super) async fn probe(connection: &Connection, run: &str) -> Result<(), String> {
    let run_id = run.to_owned();
    let mut services = connection.runs.clone();
    match with_deadline(services.get_run(runs::GetRunRequest { run_id })).await {
        Ok(_) => Ok(()),
        Err(status) if [Code::NotFound, Code::Unimplemented].contains(&status.code()) => Ok(()),
        Err(status) => Err(status_text(&status)),
    }
}

/// Starts a run. Idempotent: an agent that owns its runs starts each id once.
pub(crate) async fn start(
    connection: &Connection,
    request: runs::StartRunRequest,
) -> Result<AgentReply, RunError> {
    agent_reply(with_deadline(connection.runs.clone().start_run(request)).await)
}

/// Cancels a run gracefully. Does not start an unknown one.
pub(crate) async fn cancel(connection: &Connection, run: &str) -> Result<AgentReply, RunError> {
    let run_id = run.to_owned();
    let request = runs::CancelRunRequest { run_id };
    match with_deadline(connection.runs.clone().cancel_run(request)).await {
        Err(status) if status.code() == Code::NotFound => {
            Ok(AgentReply::Run(RunProgress::NotStarted))
        }
        answer => agent_reply(answer),
    }
}

fn agent_reply(answer: Result<runs::Run, Status>) -> Result<AgentReply, RunError> {
    match answer {
        Ok(run) => Ok(AgentReply::Run(outcome::run_state(run))),
        Err(status) if status.code() == Code::Unimplemented => Ok(AgentReply::NotOwned),
        Err(status) => Err(run_error(&status)),
    }
}

/// Lets the agent forget a run, because its result is recorded.
pub(crate) async fn acknowledge(connection: &Connection, run: &str) -> Result<(), Status> {
    let run_id = run.to_owned();
    let request = runs::AcknowledgeRunRequest { run_id };
    with_deadline(connection.runs.clone().acknowledge_run(request))
        .await
        .map(drop)
}

/// The ids of the runs that have not ended.
pub(crate) async fn list_active_runs(connection: &Connection) -> Result<Vec<String>, String> {
    let request = runs::ListRunsRequest {};
    let known = match with_deadline(connection.runs.clone().list_runs(request)).await {
        Ok(known) => known,
        // Upstream's agents own none.
        Err(status) if status.code() == Code::Unimplemented => return Ok(Vec::new()),
        Err(status) => return Err(status_text(&status)),
    };
    let is_active = |run: &runs::Run| {
        use runs::RunState::{Queued, Running};
        matches!(run.state(), Queued | Running)
    };
    let active = known.runs.into_iter().filter(is_active);
    Ok(active.map(|run| run.run_id).collect())
}

/// Waits for the end of a run, without its events.
pub(crate) async fn wait_for_end(connection: &Connection, run: &str) -> Result<(), Status> {
    let request = runs::WatchRunRequest {
        run_id: run.to_owned(),
        after_sequence: u64::MAX,
    };
    let mut runs = connection.runs.clone();
    let mut events = runs.watch_run(request).await?.into_inner();
    while events.message().await?.is_some() {}
    Ok(())
}

fn run_error(status: &Status) -> RunError {
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound => {
            RunError::Refused(plain(status.message()))
        }
        _ => RunError::Unreachable(status_text(status)),
    }
}

/// Fails with `DeadlineExceeded` if an agent does not respond in time.
pub(crate) async fn with_deadline<T>(
    answer: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, Status> {
    let timeout = tokio::time::timeout(CALL_DEADLINE, answer);
    let late = |_| Status::deadline_exceeded("the agent did not respond in time");
    timeout
        .await
        .map_err(late)?
        .map(tonic::Response::into_inner)
}

/// A status as text, without its details, which are bytes, and without the colors that upstream's
/// agents pass on.
pub(crate) fn status_text(status: &Status) -> String {
    format!("{:?}: {}", status.code(), plain(status.message()))
}
