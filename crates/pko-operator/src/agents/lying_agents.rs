//! Calls of agents that lie. What one reports costs the manager no more than the limits say, and
//! the error names the limit.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use futures::stream;
use hyper::body::{Bytes, Frame};
use kube::runtime::reflector::ObjectRef;
use pko_core::update::{RunError, RunOutcome, RunProgress};
use pko_proto::{
    agent_codec::MAX_ACTIVE_RUNS,
    run::{self as runs, RunStack, StartRunRequest, start_run_request::Operation},
};
use pko_testkit::lying_agent::{self, Lie, with_output};
use tokio::sync::mpsc::unbounded_channel;
use tonic::{Code, Status, service::Routes};

use super::{
    AgentPool, AgentReply, Connection, UpstreamRuns, cancel, client::probe, list_active_runs,
    start, test_agent::TestAgent, wait_for_end,
};

fn request() -> StartRunRequest {
    StartRunRequest {
        run_id: "run".to_owned(),
        stack: Some(RunStack::default()),
        operation: Some(Operation::Up(pko_proto::agent::UpRequest::default())),
        ..StartRunRequest::default()
    }
}

async fn liar(lie: Lie) -> (TestAgent, Connection) {
    let agent = TestAgent::serve(lying_agent::routes(lie));
    let connection = agent.connect().await;
    (agent, connection)
}

#[tokio::test]
async fn oversized_result_fails_and_names_the_limit() {
    let (_agent, connection) = liar(Lie::Oversized).await;
    let Err(RunError::Oversized(message)) = start(&connection, request()).await else {
        panic!("9 MiB were taken");
    };
    assert!(message.contains("the limit is: 8388608 bytes"), "{message}");
    assert!(matches!(
        cancel(&connection, "run").await,
        Err(RunError::Oversized(_))
    ));
    assert_eq!(probe(&connection, "run").await, Ok(()), "it answers");
}

#[tokio::test]
async fn result_that_expands_in_memory_is_not_decoded() {
    let (_agent, connection) = liar(Lie::Expanding).await;
    let Err(RunError::Oversized(message)) = start(&connection, request()).await else {
        panic!("four million notes were taken");
    };
    assert!(
        message.contains("4000003 fields, and the limit is 100000"),
        "{message}"
    );
}

/// As of an agent of an earlier version, which does not cut its results.
#[tokio::test]
async fn large_honest_result_is_received_and_its_outputs_are_explained() {
    let run = runs::Run {
        run_id: "run".to_owned(),
        state: runs::RunState::Succeeded.into(),
        result: Some(with_output(7 * 1024 * 1024)),
        ..runs::Run::default()
    };
    let agent = TestAgent::answering(&run);
    let connection = agent.connect().await;
    let Ok(AgentReply::Run(RunProgress::Ended(outcome))) = start(&connection, request()).await
    else {
        panic!("no result");
    };
    assert!(outcome.succeeded && outcome.outputs.is_empty());
    let problem = outcome.omitted_outputs.unwrap();
    assert!(
        problem.contains("the limit of 1048576 for a Secret"),
        "{problem}"
    );
}

#[tokio::test]
async fn few_of_many_listed_runs_are_taken() {
    let (_agent, connection) = liar(Lie::ManyRuns).await;
    let active = list_active_runs(&connection).await.unwrap();
    assert_eq!((active.ids.len(), active.is_cut), (MAX_ACTIVE_RUNS, true));
}

#[tokio::test]
async fn answer_for_another_run_is_not_taken() {
    let (_agent, connection) = liar(Lie::OtherRun).await;
    for answer in [
        start(&connection, request()).await,
        cancel(&connection, "run").await,
    ] {
        let Err(RunError::Unreachable(message)) = answer else {
            panic!("{answer:?}");
        };
        assert!(message.contains("answers for another run"), "{message}");
    }
}

#[tokio::test]
async fn endless_events_are_the_end_of_a_watch() {
    let (_agent, connection) = liar(Lie::EndlessEvents).await;
    wait_for_end(&connection, "run").await.unwrap();
}

#[tokio::test]
async fn long_headers_fail_and_name_the_limit() {
    let (agent, connection) = liar(Lie::LongHeaders).await;
    let Err(RunError::Unreachable(message)) = start(&connection, request()).await else {
        panic!("200 KiB of headers were taken");
    };
    assert!(message.contains("65536 bytes of headers"), "{message}");
    // The workspace's own pool is not harmed either.
    let agents = AgentPool::new(None);
    assert!(agents.connect("ws", &agent.at("pod-1")).await.is_ok());
}

#[tokio::test]
async fn upstream_run_with_endless_events_ends_at_its_time_limit() {
    let limited = StartRunRequest {
        time_limit: Some(prost_types::Duration {
            seconds: 0,
            nanos: 200_000_000,
        }),
        ..request()
    };
    let outcome = upstream_outcome(Lie::EndlessEvents, limited).await;
    assert_eq!(outcome.reason.as_deref(), Some("Canceled"));
}

#[tokio::test]
async fn upstream_failure_with_long_trailers_is_a_failure() {
    let outcome = upstream_outcome(Lie::LongHeaders, request()).await;
    assert!(!outcome.succeeded && !outcome.message.is_empty());
    assert!(outcome.message.len() < 1024, "{}", outcome.message.len());
}

async fn upstream_outcome(lie: Lie, request: StartRunRequest) -> RunOutcome {
    let (_agent, connection) = liar(lie).await;
    let (trigger, mut triggered) = unbounded_channel();
    let streams = UpstreamRuns::new(trigger);
    streams.begin(&connection, request, ObjectRef::new("update").within("ns"));
    triggered.recv().await.unwrap();
    match streams.find("run") {
        Some(RunProgress::Ended(outcome)) => *outcome,
        other => panic!("{other:?}"),
    }
}

/// Sends the beginning of a message, then one byte now and then.
#[tokio::test]
async fn message_that_drips_ends_at_its_deadline() {
    let drip = stream::unfold(0_u32, async |count| {
        let bytes = if count == 0 {
            vec![0, 0, 0x10, 0, 0]
        } else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            vec![7]
        };
        Some((Ok::<_, Status>(bytes), count + 1))
    });
    let mut body = super::client::limited_body(Body::from_stream(drip));
    let status = loop {
        match futures::future::poll_fn(|context| {
            hyper::body::Body::poll_frame(Pin::new(&mut body), context)
        })
        .await
        {
            Some(Ok(_)) => {}
            Some(Err(status)) => break status,
            None => panic!("it never ends"),
        }
    };
    assert_eq!(status.code(), Code::DeadlineExceeded);
}

impl TestAgent {
    /// Answers every call with this run.
    fn answering(run: &runs::Run) -> Self {
        let run = Arc::new(prost::Message::encode_to_vec(run));
        let handler = move || {
            let run = Arc::clone(&run);
            async move { grpc_response(&run) }
        };
        Self::serve(Routes::from(axum::Router::new().fallback(handler)))
    }
}

/// One message and the trailers of a success.
fn grpc_response(message: &[u8]) -> http::Response<Body> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let data = [&[0][..], &length, message].concat();
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [Frame::data(Bytes::from(data)), Frame::trailers(trailers)];
    let body = Frames(frames.into_iter().collect());
    let response = http::Response::builder().header("content-type", "application/grpc");
    response.body(Body::new(body)).unwrap()
}

struct Frames(VecDeque<Frame<Bytes>>);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}
