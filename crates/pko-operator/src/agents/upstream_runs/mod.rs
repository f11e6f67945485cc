//! Runs of upstream's agent: each lives as long as the call that started it, and its result is in the last message.
//!
//! # Caveats
//! A manager that ends takes these runs with it, as upstream's does: the agent interrupts the CLI when the caller is
//! gone. What is known here is known to this manager alone.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use kube::runtime::reflector::ObjectRef;
use pko_api::{
    Decoded, Update,
    names::{failures::FailureClass, reasons::UpdateReason},
};
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
use tokio::sync::{mpsc::UnboundedSender, watch};
use tonic::{Code, Status, Streaming};

use super::client::{Connection, outcome};

/// Whom to wake.
type UpdateRef = ObjectRef<Decoded<Update>>;

/// The runs of upstream's agents that this manager started and that are not recorded yet.
#[derive(Clone)]
pub(crate) struct Streams {
    known: Arc<Mutex<HashMap<String, Known>>>,
    wake: UnboundedSender<UpdateRef>,
}

enum Known {
    /// It goes on, and ends when this says so.
    Running(watch::Sender<bool>),
    Ended(Box<RunOutcome>),
}

impl Streams {
    pub(crate) fn new(wake: UnboundedSender<UpdateRef>) -> Self {
        Self {
            known: Arc::default(),
            wake,
        }
    }

    /// A run that this manager started.
    pub(crate) fn find(&self, run: &str) -> Option<RunProgress> {
        self.known().get(run).map(|known| match known {
            Known::Running(_) => RunProgress::Running,
            Known::Ended(outcome) => RunProgress::Ended(outcome.clone()),
        })
    }

    /// Starts a run in the background, which holds up nobody; its end wakes the Update.
    pub(crate) fn begin(
        &self,
        connection: &Connection,
        request: StartRunRequest,
        update: UpdateRef,
    ) {
        let run = request.run_id.clone();
        let (stop, stopped) = watch::channel(false);
        self.known().insert(run.clone(), Known::Running(stop));
        let (streams, connection) = (self.clone(), connection.clone());
        tokio::spawn(async move {
            let outcome = attended(&connection, request, stopped).await;
            streams.known().insert(run, Known::Ended(Box::new(outcome)));
            // The other end is there as long as the manager is.
            let _ = streams.wake.send(update);
        });
    }

    /// Lets go of the call, by which the agent interrupts the run.
    pub(crate) fn cancel(&self, run: &str) {
        if let Some(Known::Running(stop)) = self.known().get(run) {
            stop.send_replace(true);
        }
    }

    /// The result is recorded, or nobody wants it.
    pub(crate) fn forget(&self, run: &str) {
        self.known().remove(run);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run to its end, to its cancellation or to its time limit, whatever comes first.
async fn attended(
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
        outcome = streamed(connection, request) => outcome,
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

async fn streamed(connection: &Connection, request: StartRunRequest) -> RunOutcome {
    let started = Timestamp::now();
    let result = match select(connection, &request).await {
        Ok(()) => result_of(connection, request.operation).await,
        Err(status) => Err(status),
    };
    match result {
        Ok(Some(result)) => ended(result, started),
        Ok(None) => cut_off(started),
        Err(status) => RunOutcome {
            start: Some(started),
            end: Some(Timestamp::now()),
            ..failed(&status)
        },
    }
}

/// Upstream's Updates create a stack that is not there.
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

/// How any of the four operations ended.
#[derive(Default)]
struct Streamed {
    summary: Option<wire::UpdateSummary>,
    permalink: Option<String>,
    project: Option<wire::ProjectInfo>,
    outputs: HashMap<String, wire::OutputValue>,
    printed: String,
}

async fn result_of(
    connection: &Connection,
    operation: Option<Operation>,
) -> Result<Option<Streamed>, Status> {
    let mut automation = connection.automation.clone();
    match operation {
        None => Err(Status::invalid_argument("the Update has no type")),
        Some(Operation::Preview(options)) => {
            let stream = automation.preview(options).await?.into_inner();
            last(stream, |message| match message.response? {
                preview_stream::Response::Result(result) => Some(Streamed {
                    summary: result.summary,
                    permalink: result.permalink,
                    project: result.project_info,
                    printed: outcome::printed(&result.stdout, &result.stderr),
                    ..Streamed::default()
                }),
                preview_stream::Response::Event(_) => None,
            })
            .await
        }
        Some(Operation::Up(options)) => {
            let stream = automation.up(options).await?.into_inner();
            last(stream, |message| match message.response? {
                up_stream::Response::Result(result) => Some(Streamed {
                    summary: result.summary,
                    permalink: result.permalink,
                    project: result.project_info,
                    outputs: result.outputs.into_iter().collect(),
                    printed: outcome::printed(&result.stdout, &result.stderr),
                }),
                up_stream::Response::Event(_) => None,
            })
            .await
        }
        Some(Operation::Refresh(options)) => {
            let stream = automation.refresh(options).await?.into_inner();
            last(stream, |message| match message.response? {
                refresh_stream::Response::Result(result) => Some(Streamed {
                    summary: result.summary,
                    permalink: result.permalink,
                    project: result.project_info,
                    printed: outcome::printed(&result.stdout, &result.stderr),
                    ..Streamed::default()
                }),
                refresh_stream::Response::Event(_) => None,
            })
            .await
        }
        Some(Operation::Destroy(options)) => {
            let stream = automation.destroy(options).await?.into_inner();
            last(stream, |message| match message.response? {
                destroy_stream::Response::Result(result) => Some(Streamed {
                    summary: result.summary,
                    permalink: result.permalink,
                    project: result.project_info,
                    printed: outcome::printed(&result.stdout, &result.stderr),
                    ..Streamed::default()
                }),
                destroy_stream::Response::Event(_) => None,
            })
            .await
        }
    }
}

/// The first message that is the result; events are let go.
async fn last<M>(
    mut stream: Streaming<M>,
    result: impl Fn(M) -> Option<Streamed>,
) -> Result<Option<Streamed>, Status> {
    while let Some(message) = stream.message().await? {
        if let Some(result) = result(message) {
            return Ok(Some(result));
        }
    }
    Ok(None)
}

/// Without a summary, which previews of upstream's never have, the operation went well.
fn ended(result: Streamed, started: Timestamp) -> RunOutcome {
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

fn cut_off(started: Timestamp) -> RunOutcome {
    RunOutcome {
        reason: Some(UpdateReason::Aborted.as_str().to_owned()),
        class: Some(FailureClass::Interrupted),
        message: "the workspace's agent ended the operation without a result".to_owned(),
        start: Some(started),
        end: Some(Timestamp::now()),
        ..RunOutcome::default()
    }
}

/// A failure in upstream's words: a kind that has a name, or whatever the agent says.
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
            message: plain(status.message()),
            ..RunOutcome::default()
        },
    }
}
