//! Runs of upstream's agents: each lasts as long as the call that started it, and its result is the
//! last message.
//!
//! # Caveats
//! These runs end with the manager, as they do with upstream's: the agent interrupts the CLI when
//! its caller is gone. Their state is in this process only.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use pko_api::names::{failures::FailureClass, reasons::UpdateReason};
use pko_core::{
    plain_text::plain,
    update::{RunOutcome, RunProgress},
};
use pko_proto::{
    agent as wire,
    agent::{destroy_stream, preview_stream, refresh_stream, up_stream},
    convert::from_proto_timestamp,
    details,
    run::{StartRunRequest, start_run_request::Operation},
};
use tokio::sync::watch;
use tonic::{Code, Status, Streaming};

use super::client::{Connection, failure_text, outcome};
use crate::watch::{UpdateRef, UpdateTrigger};

/// Runs that this manager started and whose results are not recorded yet, by id.
#[derive(Clone)]
pub(crate) struct UpstreamRuns {
    known: Arc<Mutex<HashMap<String, UpstreamRun>>>,
    trigger: UpdateTrigger,
}

enum UpstreamRun {
    /// In progress; sending true cancels it.
    Running(watch::Sender<bool>),
    Ended(Box<RunOutcome>),
}

impl UpstreamRuns {
    pub(crate) fn new(trigger: UpdateTrigger) -> Self {
        Self {
            known: Arc::default(),
            trigger,
        }
    }

    pub(crate) fn find(&self, run: &str) -> Option<RunProgress> {
        self.known().get(run).map(|known| match known {
            UpstreamRun::Running(_) => RunProgress::Running,
            UpstreamRun::Ended(outcome) => RunProgress::Ended(outcome.clone()),
        })
    }

    /// Whether this process has the result of a run.
    pub(crate) fn has_ended(&self, run: &str) -> bool {
        matches!(self.known().get(run), Some(UpstreamRun::Ended(_)))
    }

    /// Starts a run in the background; its end triggers the Update.
    pub(crate) fn begin(
        &self,
        connection: &Connection,
        request: StartRunRequest,
        update: UpdateRef,
    ) {
        let run = request.run_id.clone();
        let (stop, stopped) = watch::channel(false);
        self.known().insert(run.clone(), UpstreamRun::Running(stop));
        let (runs, connection) = (self.clone(), connection.clone());
        tokio::spawn(async move {
            let outcome = run_to_end(&connection, request, stopped).await;
            runs.known()
                .insert(run, UpstreamRun::Ended(Box::new(outcome)));
            // The receiver lives as long as the manager.
            let _ = runs.trigger.send(update);
        });
    }

    /// Drops the call, which makes the agent interrupt the run.
    pub(crate) fn cancel(&self, run: &str) {
        if let Some(UpstreamRun::Running(stop)) = self.known().get(run) {
            stop.send_replace(true);
        }
    }

    /// Forgets a run whose result is recorded or not needed.
    pub(crate) fn forget(&self, run: &str) {
        self.known().remove(run);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, UpstreamRun>> {
        self.known.lock()
    }
}

/// Runs to the end, the cancellation or the time limit, whichever comes first.
async fn run_to_end(
    connection: &Connection,
    request: StartRunRequest,
    mut stopped: watch::Receiver<bool>,
) -> RunOutcome {
    let limit = request
        .time_limit
        .and_then(|limit| Duration::try_from(limit).ok());
    let too_long = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        outcome = execute(connection, request) => outcome,
        _ = stopped.wait_for(|stopped| *stopped) => canceled("the operation was interrupted"),
        () = too_long => canceled("the run took longer than its time limit: the operation was interrupted"),
    }
}

fn canceled(message: &str) -> RunOutcome {
    RunOutcome {
        reason: Some(UpdateReason::Canceled.as_str().to_owned()),
        class: Some(FailureClass::Canceled),
        message: message.to_owned(),
        end: Some(Timestamp::now()),
        ..RunOutcome::default()
    }
}

async fn execute(connection: &Connection, request: StartRunRequest) -> RunOutcome {
    let started = Timestamp::now();
    let result = match select(connection, &request).await {
        Ok(()) => result_of(connection, request.operation).await,
        Err(status) => Err(status),
    };
    match result {
        Ok(Some(result)) => to_outcome(result, started).within_limits(),
        Ok(None) => aborted(started),
        Err(status) => RunOutcome {
            start: Some(started),
            end: Some(Timestamp::now()),
            ..failed(&status)
        },
    }
}

/// Creates the stack if it does not exist, as upstream does.
async fn select(connection: &Connection, request: &StartRunRequest) -> Result<(), Status> {
    let stack = request.stack.clone().unwrap_or_default();
    let request = wire::SelectStackRequest {
        stack_name: stack.name,
        create: Some(true),
        secrets_provider: stack.secrets_provider,
    };
    let mut automation = connection.automation.clone();
    automation.select_stack(request).await.map(drop)
}

/// The result of any of the four operations.
#[derive(Default)]
struct OperationResult {
    summary: Option<wire::UpdateSummary>,
    permalink: Option<String>,
    project: Option<wire::ProjectInfo>,
    outputs: HashMap<String, wire::OutputValue>,
    printed: String,
}

async fn result_of(
    connection: &Connection,
    operation: Option<Operation>,
) -> Result<Option<OperationResult>, Status> {
    match operation {
        None => Err(Status::invalid_argument("the Update has no type")),
        Some(Operation::Preview(options)) => {
            let stream = connection
                .stream("/agent.AutomationService/Preview", options)
                .await?;
            read_result(stream, |message: wire::PreviewStream| {
                match message.response? {
                    preview_stream::Response::Result(result) => Some(OperationResult {
                        summary: result.summary,
                        permalink: result.permalink,
                        project: result.project_info,
                        printed: outcome::join_output(&result.stdout, &result.stderr),
                        ..OperationResult::default()
                    }),
                    preview_stream::Response::Event(_) => None,
                }
            })
            .await
        }
        Some(Operation::Up(options)) => {
            let stream = connection
                .stream("/agent.AutomationService/Up", options)
                .await?;
            read_result(stream, |message: wire::UpStream| match message.response? {
                up_stream::Response::Result(result) => Some(OperationResult {
                    summary: result.summary,
                    permalink: result.permalink,
                    project: result.project_info,
                    outputs: result.outputs.into_iter().collect(),
                    printed: outcome::join_output(&result.stdout, &result.stderr),
                }),
                up_stream::Response::Event(_) => None,
            })
            .await
        }
        Some(Operation::Refresh(options)) => {
            let stream = connection
                .stream("/agent.AutomationService/Refresh", options)
                .await?;
            read_result(stream, |message: wire::RefreshStream| {
                match message.response? {
                    refresh_stream::Response::Result(result) => Some(OperationResult {
                        summary: result.summary,
                        permalink: result.permalink,
                        project: result.project_info,
                        printed: outcome::join_output(&result.stdout, &result.stderr),
                        ..OperationResult::default()
                    }),
                    refresh_stream::Response::Event(_) => None,
                }
            })
            .await
        }
        Some(Operation::Destroy(options)) => {
            let stream = connection
                .stream("/agent.AutomationService/Destroy", options)
                .await?;
            read_result(stream, |message: wire::DestroyStream| {
                match message.response? {
                    destroy_stream::Response::Result(result) => Some(OperationResult {
                        summary: result.summary,
                        permalink: result.permalink,
                        project: result.project_info,
                        printed: outcome::join_output(&result.stdout, &result.stderr),
                        ..OperationResult::default()
                    }),
                    destroy_stream::Response::Event(_) => None,
                }
            })
            .await
        }
    }
}

/// Skips events up to the result.
async fn read_result<M>(
    mut stream: Streaming<M>,
    result: impl Fn(M) -> Option<OperationResult>,
) -> Result<Option<OperationResult>, Status> {
    while let Some(message) = stream.message().await? {
        if let Some(result) = result(message) {
            return Ok(Some(result));
        }
    }
    Ok(None)
}

/// An operation without a summary succeeded: upstream's previews never have one.
fn to_outcome(result: OperationResult, started: Timestamp) -> RunOutcome {
    let now = Timestamp::now();
    let (succeeded, message, start, end) = match result.summary {
        None => (true, String::new(), Some(started), Some(now)),
        Some(summary) => (
            summary.result == "succeeded",
            plain(&summary.message),
            summary.start_time.as_ref().and_then(from_proto_timestamp),
            summary.end_time.as_ref().and_then(from_proto_timestamp),
        ),
    };
    let outputs = result.outputs.into_iter();
    RunOutcome {
        succeeded,
        message,
        start,
        end,
        permalink: result.permalink.filter(|link| !link.is_empty()),
        project: result.project.map(outcome::project),
        outputs: outputs
            .map(|(name, value)| (name, outcome::output(value)))
            .collect(),
        printed: result.printed,
        ..RunOutcome::default()
    }
}

fn aborted(started: Timestamp) -> RunOutcome {
    RunOutcome {
        reason: Some(UpdateReason::Aborted.as_str().to_owned()),
        class: Some(FailureClass::Interrupted),
        message: "the workspace's agent ended the operation without a result".to_owned(),
        start: Some(started),
        end: Some(Timestamp::now()),
        ..RunOutcome::default()
    }
}

/// Takes the reason that the agent gives, or `Unknown`.
fn failed(status: &Status) -> RunOutcome {
    let class =
        details::failure_info(status.details()).and_then(|info| outcome::class(info.class()));
    let class = class.or_else(|| {
        let is_gone = [Code::Unavailable, Code::Cancelled].contains(&status.code());
        is_gone.then_some(FailureClass::Interrupted)
    });
    match details::error_info(status.details()) {
        Some(info) => RunOutcome {
            class: class.or((info.code == 409).then_some(FailureClass::Conflict)),
            reason: Some(info.reason),
            message: plain(&info.message),
            ..RunOutcome::default()
        },
        None => RunOutcome {
            class,
            reason: Some(UpdateReason::Unknown.as_str().to_owned()),
            message: failure_message(status),
            ..RunOutcome::default()
        },
    }
}

/// Trailers beyond the limit lose the text.
fn failure_message(status: &Status) -> String {
    let text = failure_text(status);
    if text.is_empty() {
        return "the agent gives no reason, or a longer one than the manager accepts".to_owned();
    }
    text
}
