//! Calls of a workspace's agent.

mod authorized;
mod connection;
mod failure;
pub(super) mod outcome;
mod receive_budget;
mod receive_limits;
mod request;

use std::time::Duration;

use pko_core::update::{RunError, RunProgress};
use pko_proto::{agent_codec::ActiveRuns, run as runs};
use tonic::{Code, Status};

pub(crate) use connection::{ConnectError, Connection, connect};
pub(super) use failure::failure_text;
pub(crate) use failure::{agent_error, is_transient, status_text};
pub(crate) use receive_budget::ReceiveBudget;
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
    // A result that is too large is an answer, too.
    const ANSWERS: [Code; 3] = [Code::NotFound, Code::Unimplemented, Code::OutOfRange];
    let request = runs::GetRunRequest {
        run_id: run.to_owned(),
    };
    let answer = connection.call::<_, runs::Run>("/pko.agent.v1.RunService/GetRun", request);
    match with_deadline(answer).await {
        Ok(_) => Ok(()),
        Err(status) if ANSWERS.contains(&status.code()) => Ok(()),
        Err(status) => Err(status_text(&status)),
    }
}

/// Starts a run. Idempotent: an agent that owns its runs starts each id once.
pub(crate) async fn start(
    connection: &Connection,
    request: runs::StartRunRequest,
) -> Result<AgentReply, RunError> {
    let run = request.run_id.clone();
    let answer = connection.call("/pko.agent.v1.RunService/StartRun", request);
    agent_reply(&run, with_deadline(answer).await)
}

/// Cancels a run gracefully. Does not start an unknown one.
pub(crate) async fn cancel(connection: &Connection, run: &str) -> Result<AgentReply, RunError> {
    let run_id = run.to_owned();
    let request = runs::CancelRunRequest { run_id };
    let answer = connection.call("/pko.agent.v1.RunService/CancelRun", request);
    match with_deadline(answer).await {
        Err(status) if status.code() == Code::NotFound => {
            Ok(AgentReply::Run(RunProgress::NotStarted))
        }
        answer => agent_reply(run, answer),
    }
}

fn agent_reply(asked: &str, answer: Result<runs::Run, Status>) -> Result<AgentReply, RunError> {
    match answer {
        Ok(run) if run.run_id != asked => Err(RunError::Unreachable(
            "the workspace's agent answers for another run than the one it was asked for"
                .to_owned(),
        )),
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

/// The ids of the runs that have not ended, as far as an agent can have so many.
pub(crate) async fn list_active_runs(connection: &Connection) -> Result<ActiveRuns, String> {
    let request = runs::ListRunsRequest {};
    let answer = connection.call("/pko.agent.v1.RunService/ListRuns", request);
    match with_deadline(answer).await {
        // Upstream's agents own none.
        Err(status) if status.code() == Code::Unimplemented => Ok(ActiveRuns::default()),
        answer => answer.map_err(|status| status_text(&status)),
    }
}

/// Waits for the end of a run, without its events and its result: whatever the agent sends is the
/// end.
pub(crate) async fn wait_for_end(connection: &Connection, run: &str) -> Result<(), Status> {
    let request = runs::WatchRunRequest {
        run_id: run.to_owned(),
        after_sequence: u64::MAX,
    };
    let events = connection.signal("/pko.agent.v1.RunService/WatchRun", request);
    match events.await?.message().await {
        Err(status) if status.code() != Code::OutOfRange => Err(status),
        _ => Ok(()),
    }
}

fn run_error(status: &Status) -> RunError {
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound => {
            RunError::Refused(failure_text(status))
        }
        Code::OutOfRange => RunError::Oversized(format!(
            "the result of the run cannot be recorded: {}. The operation itself may have succeeded; export fewer or \
             smaller outputs",
            failure_text(status)
        )),
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

/// A response's body within the limits of an agent, but for less patience.
#[cfg(test)]
pub(super) fn limited_body(body: axum::body::Body) -> receive_limits::LimitedBody {
    let share = ReceiveBudget::default().share("ns");
    let body = tonic::body::Body::new(body);
    receive_limits::LimitedBody::new(body, share).with_message_limit(Duration::from_millis(200))
}
