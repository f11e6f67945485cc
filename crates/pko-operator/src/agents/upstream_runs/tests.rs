//! Runs against a test agent that has upstream's service only.

use kube::runtime::reflector::ObjectRef;
use pko_api::names::failures::FailureClass;
use pko_core::update::{RunOutcome, RunProgress};
use pko_proto::{
    agent::{self as wire, PulumiErrorInfo},
    agent_codec::ActiveRuns,
    details::{RpcStatus, of_error},
    run::{RunStack, StartRunRequest, start_run_request::Operation},
};
use prost::Message as _;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tonic::{Code, Status};

use super::UpstreamRuns;
use crate::agents::{
    AgentReply, cancel,
    client::probe,
    list_active_runs, start,
    test_agent::{StreamEnding, TestAgent, UpstreamAgent},
};
use crate::watch::UpdateRef;

fn request(operation: Operation) -> StartRunRequest {
    StartRunRequest {
        run_id: "run".to_owned(),
        stack: Some(RunStack {
            name: "dev".to_owned(),
            ..RunStack::default()
        }),
        operation: Some(operation),
        ..StartRunRequest::default()
    }
}

fn up() -> Operation {
    Operation::Up(wire::UpRequest {
        message: Some("because".to_owned()),
        ..wire::UpRequest::default()
    })
}

struct StartedRun {
    streams: UpstreamRuns,
    triggered: UnboundedReceiver<UpdateRef>,
    _agent: TestAgent,
}

async fn begin(upstream: &UpstreamAgent, request: StartRunRequest) -> StartedRun {
    let agent = TestAgent::serve(upstream.routes());
    let connection = agent.connect().await;
    assert_eq!(probe(&connection, "run").await, Ok(()), "it is there");
    assert_eq!(
        start(&connection, request.clone()).await,
        Ok(AgentReply::NotOwned)
    );
    assert_eq!(cancel(&connection, "run").await, Ok(AgentReply::NotOwned));
    assert_eq!(
        list_active_runs(&connection).await,
        Ok(ActiveRuns::default())
    );
    let (trigger, triggered) = unbounded_channel();
    let streams = UpstreamRuns::new(trigger);
    assert_eq!(streams.find("run"), None);
    streams.begin(&connection, request, ObjectRef::new("update").within("ns"));
    StartedRun {
        streams,
        triggered,
        _agent: agent,
    }
}

impl StartedRun {
    /// The outcome, once the Update is triggered.
    async fn outcome(mut self) -> RunOutcome {
        self.triggered.recv().await.unwrap();
        match self.streams.find("run") {
            Some(RunProgress::Ended(outcome)) => {
                self.streams.forget("run");
                assert_eq!(self.streams.find("run"), None);
                *outcome
            }
            other => panic!("{other:?}"),
        }
    }
}

fn result(word: &str) -> wire::UpResult {
    let output = wire::OutputValue {
        value: b"4".to_vec(),
        secret: false,
    };
    wire::UpResult {
        summary: Some(wire::UpdateSummary {
            result: word.to_owned(),
            message: "because".to_owned(),
            ..wire::UpdateSummary::default()
        }),
        permalink: Some("https://x/1".to_owned()),
        outputs: [("size".to_owned(), output)].into(),
        project_info: Some(wire::ProjectInfo {
            name: "hello".to_owned(),
            runtime: "yaml".to_owned(),
        }),
        ..wire::UpResult::default()
    }
}

#[tokio::test]
async fn upstream_run_selects_the_stack_then_streams() {
    let upstream = UpstreamAgent::new(Some(result("succeeded")), StreamEnding::Eof);
    let outcome = begin(&upstream, request(up())).await.outcome().await;
    assert!(outcome.succeeded);
    assert_eq!(outcome.message, "because");
    assert_eq!(outcome.permalink.as_deref(), Some("https://x/1"));
    assert_eq!(outcome.project.unwrap().name, "hello");
    assert_eq!(outcome.outputs["size"].json, b"4");
    let asked = upstream.asked.lock().clone();
    assert_eq!(asked, ["select dev create=Some(true)", "up because"]);
}

#[tokio::test]
async fn upstream_run_calls_its_operation() {
    for (operation, name) in [
        (
            Operation::Preview(wire::PreviewRequest::default()),
            "preview",
        ),
        (
            Operation::Refresh(wire::RefreshRequest::default()),
            "refresh",
        ),
        (
            Operation::Destroy(wire::DestroyRequest::default()),
            "destroy",
        ),
    ] {
        let upstream = UpstreamAgent::new(Some(result("succeeded")), StreamEnding::Eof);
        let outcome = begin(&upstream, request(operation)).await.outcome().await;
        assert!(outcome.succeeded, "{name}");
        assert_eq!(upstream.asked.lock()[1], name);
        let is_preview = name == "preview";
        assert_eq!(
            outcome.start.is_some() && outcome.end.is_some(),
            is_preview,
            "{name}"
        );
    }
}

#[tokio::test]
async fn upstream_run_without_success_fails_without_reason() {
    let upstream = UpstreamAgent::new(Some(result("failed")), StreamEnding::Eof);
    let outcome = begin(&upstream, request(up())).await.outcome().await;
    assert!(!outcome.succeeded);
    assert_eq!(
        (outcome.reason, outcome.message.as_str()),
        (None, "because")
    );
    assert!(outcome.permalink.is_some() && outcome.project.is_some());
}

/// A failure as upstream sends it.
fn conflict() -> Status {
    let message = "Another update is currently in progress".to_owned();
    let info = PulumiErrorInfo {
        code: 409,
        reason: "UpdateConflict".to_owned(),
        message,
    };
    let details = RpcStatus {
        code: 2,
        message: "up failed".to_owned(),
        details: vec![of_error(&info)],
    };
    Status::with_details(
        Code::Unknown,
        "up failed: [409]",
        details.encode_to_vec().into(),
    )
}

#[tokio::test]
async fn upstream_run_failure_has_upstreams_reason() {
    let table = [
        (
            StreamEnding::Status(Status::unknown("up failed: exit status 255")),
            ("Unknown", "up failed: exit status 255", None),
        ),
        (
            StreamEnding::Status(Status::unknown(
                "up failed: \u{1b}[31mError\u{1b}[0m: no plugin",
            )),
            ("Unknown", "up failed: Error: no plugin", None),
        ),
        (
            StreamEnding::Status(conflict()),
            (
                "UpdateConflict",
                "Another update is currently in progress",
                Some(FailureClass::Conflict),
            ),
        ),
        (
            StreamEnding::Status(Status::unavailable("cut off")),
            ("Unknown", "cut off", Some(FailureClass::Interrupted)),
        ),
        (
            StreamEnding::Eof,
            (
                "Aborted",
                "the workspace's agent ended the operation without a result",
                Some(FailureClass::Interrupted),
            ),
        ),
    ];
    for (ending, (reason, message, class)) in table {
        let upstream = UpstreamAgent::new(None, ending);
        let outcome = begin(&upstream, request(up())).await.outcome().await;
        assert!(!outcome.succeeded);
        assert_eq!(outcome.reason.as_deref(), Some(reason));
        assert_eq!((outcome.message.as_str(), outcome.class), (message, class));
        assert!(outcome.start.is_some() && outcome.end.is_some());
    }
}

#[tokio::test]
async fn upstream_run_fails_if_the_stack_is_not_selected() {
    let mut upstream = UpstreamAgent::new(None, StreamEnding::Eof);
    upstream.selection = Some(Status::not_found("stack not found"));
    let outcome = begin(&upstream, request(up())).await.outcome().await;
    assert_eq!(outcome.reason.as_deref(), Some("Unknown"));
    assert_eq!(outcome.message, "stack not found");
}

#[tokio::test]
async fn upstream_run_is_canceled_by_request_and_time_limit() {
    let upstream = UpstreamAgent::new(None, StreamEnding::Hangs);
    let started = begin(&upstream, request(up())).await;
    assert_eq!(started.streams.find("run"), Some(RunProgress::Running));
    started.streams.cancel("run");
    let outcome = started.outcome().await;
    assert_eq!(outcome.reason.as_deref(), Some("Canceled"));
    assert_eq!(outcome.message, "the operation was interrupted");

    let limited = StartRunRequest {
        time_limit: Some(prost_types::Duration {
            seconds: 0,
            nanos: 1,
        }),
        ..request(up())
    };
    let outcome = begin(&upstream, limited).await.outcome().await;
    assert_eq!(outcome.class, Some(FailureClass::Canceled));
    assert!(
        outcome
            .message
            .starts_with("the run took longer than its time limit")
    );
}
