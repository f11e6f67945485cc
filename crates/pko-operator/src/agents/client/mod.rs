//! Talking to the agent of a workspace.

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
pub(crate) use failure::{is_transient, refusal};
pub(crate) use request::{config_item, start_request};

/// How long an agent may take to answer what it can answer at once.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// A run, if the agent owns runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Begun {
    /// It does.
    Run(RunProgress),
    /// It is upstream's: a run of it lives as long as the call that started it.
    NotOwned,
}

/// Speaks to the agent, about a run that it may not know.
pub(super) async fn greet(connection: &Connection, run: &str) -> Result<(), String> {
    let run_id = run.to_owned();
    let mut services = connection.runs.clone();
    match in_time(services.get_run(runs::GetRunRequest { run_id })).await {
        Ok(_) => Ok(()),
        Err(status) if [Code::NotFound, Code::Unimplemented].contains(&status.code()) => Ok(()),
        Err(status) => Err(text(&status)),
    }
}

/// Starts a run, or finds it: an agent that owns its runs begins each id once.
pub(crate) async fn start(
    connection: &Connection,
    request: runs::StartRunRequest,
) -> Result<Begun, RunError> {
    seen(in_time(connection.runs.clone().start_run(request)).await)
}

/// Tells a run to end, gently; it is not begun by that.
pub(crate) async fn cancel(connection: &Connection, run: &str) -> Result<Begun, RunError> {
    let run_id = run.to_owned();
    let request = runs::CancelRunRequest { run_id };
    match in_time(connection.runs.clone().cancel_run(request)).await {
        Err(status) if status.code() == Code::NotFound => Ok(Begun::Run(RunProgress::NotStarted)),
        answer => seen(answer),
    }
}

fn seen(answer: Result<runs::Run, Status>) -> Result<Begun, RunError> {
    match answer {
        Ok(run) => Ok(Begun::Run(outcome::seen(run))),
        Err(status) if status.code() == Code::Unimplemented => Ok(Begun::NotOwned),
        Err(status) => Err(run_error(&status)),
    }
}

/// The result of a run is kept elsewhere: the agent may forget it.
pub(crate) async fn acknowledge(connection: &Connection, run: &str) -> Result<(), Status> {
    let run_id = run.to_owned();
    let request = runs::AcknowledgeRunRequest { run_id };
    in_time(connection.runs.clone().acknowledge_run(request))
        .await
        .map(drop)
}

/// The runs that have not ended, by id.
pub(crate) async fn under_way(connection: &Connection) -> Result<Vec<String>, String> {
    let request = runs::ListRunsRequest {};
    let known = match in_time(connection.runs.clone().list_runs(request)).await {
        Ok(known) => known,
        // Upstream's agent owns none.
        Err(status) if status.code() == Code::Unimplemented => return Ok(Vec::new()),
        Err(status) => return Err(text(&status)),
    };
    let goes_on = |run: &runs::Run| {
        use runs::RunState::{Queued, Running};
        matches!(run.state(), Queued | Running)
    };
    let going_on = known.runs.into_iter().filter(goes_on);
    Ok(going_on.map(|run| run.run_id).collect())
}

/// Waits for the end of a run. Its events are not asked for.
pub(crate) async fn until_end(connection: &Connection, run: &str) -> Result<(), Status> {
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
        _ => RunError::Unreachable(text(status)),
    }
}

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

/// A status as a sentence; never its details, which are bytes. Upstream's agents pass on the colors
/// of the CLI.
pub(crate) fn text(status: &Status) -> String {
    format!("{:?}: {}", status.code(), plain(status.message()))
}
