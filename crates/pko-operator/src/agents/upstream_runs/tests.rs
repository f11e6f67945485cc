//! Runs of upstream's agent, against one that has upstream's service and no other.

use kube::runtime::reflector::ObjectRef;
use pko_api::names::failures::FailureClass;
use pko_core::update::{RunOutcome, RunProgress};
use pko_proto::{
    agent::{self as wire, PulumiErrorInfo},
    details::{RpcStatus, of_error},
    run::{RunStack, StartRunRequest, start_run_request::Operation},
};
use prost::Message as _;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tonic::{Code, Status};

use super::{Streams, UpdateRef};
use crate::agents::{
    Begun, Credentials, cancel,
    client::greet,
    connect, start,
    test_agent::{Agent, Ending, Upstream},
    under_way,
};

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

struct Began {
    streams: Streams,
    woken: UnboundedReceiver<UpdateRef>,
    _agent: Agent,
}

async fn begin(upstream: &Upstream, request: StartRunRequest) -> Began {
    let agent = Agent::serve(upstream.routes());
    let connection = connect(&agent.address, &Credentials::Nothing).await;
    let connection = connection.unwrap();
    assert_eq!(greet(&connection, "run").await, Ok(()), "it is there");
    assert_eq!(
        start(&connection, request.clone()).await,
        Ok(Begun::NotOwned)
    );
    assert_eq!(cancel(&connection, "run").await, Ok(Begun::NotOwned));
    assert_eq!(under_way(&connection).await, Ok(Vec::new()));
    let (wake, woken) = unbounded_channel();
    let streams = Streams::new(wake);
    assert_eq!(streams.find("run"), None);
    streams.begin(&connection, request, ObjectRef::new("update").within("ns"));
    Began {
        streams,
        woken,
        _agent: agent,
    }
}

impl Began {
    /// How it ended, once the Update was woken for it.
    async fn outcome(mut self) -> RunOutcome {
        self.woken.recv().await.unwrap();
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
async fn an_update_is_selected_then_streamed() {
    let upstream = Upstream::new(Some(result("succeeded")), Ending::Eof);
    let outcome = begin(&upstream, request(up())).await.outcome().await;
    assert!(outcome.succeeded);
    assert_eq!(outcome.message, "because");
    assert_eq!(outcome.permalink.as_deref(), Some("https://x/1"));
    assert_eq!(outcome.project.unwrap().name, "hello");
    assert_eq!(outcome.outputs["size"].json, b"4");
    let asked = upstream.asked.lock().unwrap().clone();
    assert_eq!(asked, ["select dev create=Some(true)", "up because"]);
}

#[tokio::test]
async fn each_operation_is_its_own_call() {
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
        let upstream = Upstream::new(Some(result("succeeded")), Ending::Eof);
        let outcome = begin(&upstream, request(operation)).await.outcome().await;
        assert!(outcome.succeeded, "{name}");
        assert_eq!(upstream.asked.lock().unwrap()[1], name);
        let is_preview = name == "preview";
        assert_eq!(
            outcome.start.is_some() && outcome.end.is_some(),
            is_preview,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_result_that_is_no_success_is_a_failure_without_a_name() {
    let upstream = Upstream::new(Some(result("failed")), Ending::Eof);
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
async fn failures_have_upstreams_reasons() {
    let table = [
        (
            Ending::Status(Status::unknown("up failed: exit status 255")),
            ("Unknown", "up failed: exit status 255", None),
        ),
        (
            Ending::Status(Status::unknown(
                "up failed: \u{1b}[31mError\u{1b}[0m: no plugin",
            )),
            ("Unknown", "up failed: Error: no plugin", None),
        ),
        (
            Ending::Status(conflict()),
            (
                "UpdateConflict",
                "Another update is currently in progress",
                Some(FailureClass::Conflict),
            ),
        ),
        (
            Ending::Status(Status::unavailable("cut off")),
            ("Unknown", "cut off", Some(FailureClass::Interrupted)),
        ),
        (
            Ending::Eof,
            (
                "Aborted",
                "the workspace's agent ended the operation without a result",
                Some(FailureClass::Interrupted),
            ),
        ),
    ];
    for (ending, (reason, message, class)) in table {
        let upstream = Upstream::new(None, ending);
        let outcome = begin(&upstream, request(up())).await.outcome().await;
        assert!(!outcome.succeeded);
        assert_eq!(outcome.reason.as_deref(), Some(reason));
        assert_eq!((outcome.message.as_str(), outcome.class), (message, class));
        assert!(outcome.start.is_some() && outcome.end.is_some());
    }
}

#[tokio::test]
async fn a_stack_that_can_not_be_selected_is_the_cause() {
    let mut upstream = Upstream::new(None, Ending::Eof);
    upstream.selection = Some(Status::not_found("stack not found"));
    let outcome = begin(&upstream, request(up())).await.outcome().await;
    assert_eq!(outcome.reason.as_deref(), Some("Unknown"));
    assert_eq!(outcome.message, "stack not found");
}

#[tokio::test]
async fn a_run_can_be_canceled_and_has_a_time_limit() {
    let upstream = Upstream::new(None, Ending::Hangs);
    let began = begin(&upstream, request(up())).await;
    assert_eq!(began.streams.find("run"), Some(RunProgress::Running));
    began.streams.cancel("run");
    let outcome = began.outcome().await;
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
