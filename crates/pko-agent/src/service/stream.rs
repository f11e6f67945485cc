//! Upstream's four streaming calls. Each owns a run, which is interrupted if the caller
//! disconnects.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use jiff::Timestamp;
use pko_proto::{
    agent::{
        DestroyResult, DestroyStream, PreviewResult, PreviewStream, RefreshResult, RefreshStream,
        UpResult, UpStream, destroy_stream, preview_stream, refresh_stream, up_stream,
    },
    convert::to_proto_struct,
    run::{RunEvent, RunResult, run_event},
};
use prost_types::Struct;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::status::run_failure_status;
use crate::{
    pulumi::StopReason,
    run::{RunRequest, Runs, RunsError},
};

pub(super) trait Reply: Send + 'static {
    fn event(event: Struct) -> Self;
    fn result(result: RunResult) -> Self;
}

/// The events of a run, then its result.
pub(super) type ReplyStream<R> = ReceiverStream<Result<R, Status>>;

/// Starts a run that is owned by the call.
pub(super) fn start_run<R: Reply>(
    runs: &Arc<Runs>,
    request: RunRequest,
) -> Result<ReplyStream<R>, Status> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    // With the time, because a previous agent may have left a run with the same number.
    let run_id = format!("call-{}-{number}", Timestamp::now().as_nanosecond());
    runs.start(&run_id, request, true)?;
    let events = runs.watch(&run_id, 0)?;
    let (replies, receiver) = mpsc::channel(16);
    let runs = Arc::clone(runs);
    tokio::spawn(async move {
        forward_events(&runs, &run_id, events, replies).await;
        if let Err(error) = runs.acknowledge(&run_id) {
            tracing::warn!(run = run_id, %error, "Failed to remove the run of a finished call");
        }
    });
    Ok(ReceiverStream::new(receiver))
}

/// Returns when the run has finished, even if the caller has disconnected.
async fn forward_events<R: Reply>(
    runs: &Runs,
    run_id: &str,
    mut events: mpsc::Receiver<Result<RunEvent, RunsError>>,
    replies: mpsc::Sender<Result<R, Status>>,
) {
    let mut disconnected = false;
    loop {
        let item = tokio::select! {
            item = events.recv() => item,
            () = replies.closed(), if !disconnected => {
                disconnected = true;
                tracing::info!(run = run_id, "The caller of a run disconnected");
                // The run exists, because it is being watched.
                let _ = runs.cancel(run_id, StopReason::CallerGone);
                continue;
            }
        };
        let Some(item) = item else { return };
        let reply = item.map_err(Status::from).and_then(reply);
        if let Some(reply) = reply.transpose() {
            // A disconnected caller is handled above.
            let _ = replies.send(reply).await;
        }
    }
}

fn reply<R: Reply>(event: RunEvent) -> Result<Option<R>, Status> {
    match event.event {
        Some(run_event::Event::EngineEvent(json)) => {
            let event: Option<Map<String, Value>> = serde_json::from_slice(&json).ok();
            Ok(event.map(|event| R::event(to_proto_struct(&event))))
        }
        Some(run_event::Event::Result(result)) => match &result.error {
            Some(error) => Err(run_failure_status(&result, error)),
            None => Ok(Some(R::result(result))),
        },
        None => Ok(None),
    }
}

impl Reply for PreviewStream {
    fn event(event: Struct) -> Self {
        let response = Some(preview_stream::Response::Event(event));
        Self { response }
    }

    fn result(result: RunResult) -> Self {
        let result = PreviewResult {
            stdout: result.stdout,
            stderr: result.stderr,
            // As upstream: managers take a preview without a summary for a success.
            summary: None,
            permalink: result.permalink,
            project_info: result.project_info,
        };
        let response = Some(preview_stream::Response::Result(result));
        Self { response }
    }
}

impl Reply for RefreshStream {
    fn event(event: Struct) -> Self {
        let response = Some(refresh_stream::Response::Event(event));
        Self { response }
    }

    fn result(result: RunResult) -> Self {
        let result = RefreshResult {
            stdout: result.stdout,
            stderr: result.stderr,
            summary: result.summary,
            permalink: result.permalink,
            project_info: result.project_info,
        };
        let response = Some(refresh_stream::Response::Result(result));
        Self { response }
    }
}

impl Reply for UpStream {
    fn event(event: Struct) -> Self {
        let response = Some(up_stream::Response::Event(event));
        Self { response }
    }

    fn result(result: RunResult) -> Self {
        let result = UpResult {
            stdout: result.stdout,
            stderr: result.stderr,
            summary: result.summary,
            permalink: result.permalink,
            outputs: result.outputs,
            project_info: result.project_info,
        };
        let response = Some(up_stream::Response::Result(result));
        Self { response }
    }
}

impl Reply for DestroyStream {
    fn event(event: Struct) -> Self {
        let response = Some(destroy_stream::Response::Event(event));
        Self { response }
    }

    fn result(result: RunResult) -> Self {
        let result = DestroyResult {
            stdout: result.stdout,
            stderr: result.stderr,
            summary: result.summary,
            permalink: result.permalink,
            project_info: result.project_info,
        };
        let response = Some(destroy_stream::Response::Result(result));
        Self { response }
    }
}
