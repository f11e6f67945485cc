//! A CLI that does not behave.

use pko_proto::{
    agent::{
        DestroyRequest, PreviewRequest, RefreshRequest, UpRequest, destroy_stream, preview_stream,
        refresh_stream,
    },
    run::{ErrorClass, RunState, run_event},
};
use pko_testkit::{Interrupt, Reply};
use serde_json::{Value, json};
use tonic::Code;

use crate::harness::{
    TestWorkspace, cancel, events_and_result, get, remaining_events, simple, stubborn, update,
    wait_for_result, watch, within_deadline,
};

/// The last version that writes its events into a file for the agent, and one that sends them.
const VERSIONS: [&str; 2] = ["3.205.0", "3.259.0"];

/// Upstream waits for ever for such a preview, and leaks a task for each of the others.
#[tokio::test]
async fn cli_without_event_stream_finishes() {
    for version in VERSIONS {
        never_opens_its_event_stream(version).await;
    }
}

async fn never_opens_its_event_stream(version: &str) {
    let answer = Reply::new().prints("done\n").without_events();
    let place = TestWorkspace::scripted(&TestWorkspace::script(&answer).version(version));
    let agent = place.serve(&["--stack", "dev"]).await;
    let mut client = agent.automation().await;
    let ends = async {
        let up = client.up(UpRequest::default()).await.unwrap().into_inner();
        let (events, result) = events_and_result(up).await;
        assert_eq!((events.len(), &*result.unwrap().stdout), (0, "done\n"));
        let refresh = client.refresh(RefreshRequest::default()).await.unwrap();
        let message = refresh.into_inner().message().await.unwrap().unwrap();
        let result = message.response.unwrap();
        assert!(matches!(result, refresh_stream::Response::Result(_)));
        let destroy = client.destroy(DestroyRequest::default()).await.unwrap();
        let message = destroy.into_inner().message().await.unwrap().unwrap();
        let result = message.response.unwrap();
        assert!(matches!(result, destroy_stream::Response::Result(_)));
        let preview = client.preview(PreviewRequest::default()).await.unwrap();
        // Whether it counts as a preview without a summary is another question; it ends.
        match preview.into_inner().message().await {
            Ok(message) => {
                let result = message.unwrap().response.unwrap();
                assert!(matches!(result, preview_stream::Response::Result(_)));
            }
            Err(status) => assert!(status.message().contains("preview"), "{status}"),
        }
    };
    within_deadline("the ends of four operations", ends).await;
}

#[tokio::test]
async fn cli_failing_before_event_stream_reports_error() {
    let place = TestWorkspace::new(&Reply::locked().without_events());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let result = within_deadline("the end", wait_for_result(&mut client, "one")).await;
    let error = result.error.unwrap();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert!(
        error
            .message
            .contains("the stack is currently locked by 1 lock(s)")
    );
}

#[tokio::test]
async fn cli_ignoring_caller_interrupt_is_killed() {
    let place = TestWorkspace::new(&stubborn());
    let agent = place
        .serve(&["--stack", "dev", "--stop-patience", "0"])
        .await;
    let mut client = agent.automation().await;
    let mut stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    drop(stream);
    place.stand_in.set_script(&TestWorkspace::script(&simple()));
    let next = async {
        let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
        events_and_result(stream).await.1.unwrap()
    };
    within_deadline("the next update", next).await;
    let calls = place.stand_in.calls();
    let first = calls.iter().find(|call| call.is("up")).unwrap();
    // A kill can't be recorded by who is killed.
    assert!(first.code.is_none());
}

#[tokio::test]
async fn cli_ignoring_shutdown_is_killed() {
    let place = TestWorkspace::new(&stubborn());
    let agent = place.serve(&["--stop-patience", "0"]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    events.message().await.unwrap().unwrap();
    agent.terminate();
    let result = within_deadline("the end of the run", remaining_events(events))
        .await
        .1
        .unwrap();
    let error = result.error.unwrap();
    assert_eq!(error.class(), ErrorClass::Interrupted);
    assert!(error.message.contains("signal: killed"), "{error:?}");
    drop(client);
    assert_eq!(agent.wait_for_exit().await, Some(0));
}

/// One interrupt only: the real CLI takes a second one for "at once", and leaves resources behind.
#[tokio::test]
async fn slow_cli_is_interrupted_once() {
    let slow = Interrupt::Obey {
        after: 300,
        code: 1,
    };
    let answer = Reply::new().event(json!({"sequence": 0})).hangs();
    let place = TestWorkspace::new(&answer.on_interrupt(slow));
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    events.message().await.unwrap().unwrap();
    for _ in 0..3 {
        cancel(&mut client, "one").await;
    }
    let result = within_deadline("the end of the run", remaining_events(events))
        .await
        .1
        .unwrap();
    // The real CLI's code for it is 1, and it still counts as canceled.
    let error = result.error.unwrap();
    assert_eq!(
        (error.class(), error.exit_code),
        (ErrorClass::Canceled, Some(1))
    );
    assert_eq!(get(&mut client, "one").await.state(), RunState::Canceled);
    assert_eq!(place.stand_in.calls().last().unwrap().signals, [2]);
}

#[tokio::test]
async fn cli_killed_by_signal_reports_signal() {
    for version in VERSIONS {
        dies(version).await;
    }
}

async fn dies(version: &str) {
    let answer = Reply::new().event(json!({"sequence": 0})).dies(9);
    let place = TestWorkspace::scripted(&TestWorkspace::script(&answer).version(version));
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let (numbers, result) = within_deadline(
        "the end",
        remaining_events(watch(&mut client, "one", 0).await),
    )
    .await;
    // What was on its way to a listener is lost; what was written is not.
    assert!(*numbers.last().unwrap() == 2 || version != VERSIONS[0]);
    let error = result.unwrap().error.unwrap();
    assert_eq!(error.exit_code, Some(-1));
    assert!(
        error.message.contains("signal: killed\ncode: -1"),
        "{error:?}"
    );
}

#[tokio::test]
async fn grandchild_holding_pipes_does_not_block_call() {
    let answer = simple().leaves_grandchild_until("gate");
    let place = TestWorkspace::new(&answer);
    let agent = place.serve(&["--stack", "dev"]).await;
    let mut client = agent.automation().await;
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let (events, result) = within_deadline("the result", events_and_result(stream)).await;
    assert_eq!(events.len(), 4);
    assert_eq!(result.unwrap().summary.unwrap().result, "succeeded");
    place.open_gate();
}

#[tokio::test]
async fn event_flood_arrives_complete_and_in_order() {
    for version in VERSIONS {
        floods(version).await;
    }
}

async fn floods(version: &str) {
    const EVENTS: u64 = 10_000;
    let answer = Reply::new().floods(EVENTS, 200);
    let place = TestWorkspace::scripted(&TestWorkspace::script(&answer).version(version));
    let agent = place.serve(&["--stack", "dev"]).await;
    let mut client = agent.automation().await;
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let (events, result) = within_deadline("the flood", events_and_result(stream)).await;
    assert!(result.unwrap().outputs.is_empty());
    let numbers = events
        .iter()
        .map(|event| event["sequence"].as_f64().unwrap());
    assert!(numbers.eq((0_u32..10_000).map(f64::from)));

    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    let mut sequences = Vec::new();
    let read = async {
        while let Some(event) = events.message().await.unwrap() {
            let Some(run_event::Event::EngineEvent(json)) = event.event else {
                break;
            };
            let parsed: Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(parsed["sequence"].as_u64(), Some(event.sequence - 1));
            sequences.push(event.sequence);
        }
    };
    within_deadline("the flood", read).await;
    assert!(sequences.into_iter().eq(1..=EVENTS));
}

#[tokio::test]
async fn non_utf8_output_is_replaced() {
    let answer = Reply::new()
        .event(json!({"sequence": 0}))
        .prints_bytes(b"out \xff\xfe end\n")
        .prints_error_bytes(b"err \xc3\x28 end\n");
    let place = TestWorkspace::new(&answer.clone());
    let agent = place.serve(&["--stack", "dev"]).await;
    let mut client = agent.automation().await;
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let result = within_deadline("the result", events_and_result(stream))
        .await
        .1
        .unwrap();
    assert_eq!(result.stdout, "out \u{fffd}\u{fffd} end\n");
    assert_eq!(result.stderr, "err \u{fffd}( end\n");

    place
        .stand_in
        .set_script(&TestWorkspace::script(&answer.exits(1)));
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let status = within_deadline("the failure", events_and_result(stream))
        .await
        .1
        .unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert!(
        status.message().contains("stdout: out \u{fffd}"),
        "{status}"
    );
}

#[tokio::test]
async fn cli_colors_are_removed_from_messages_and_logs() {
    let answer = Reply::new()
        .event(json!({"sequence": 0}))
        .prints("\u{1b}[1mUpdating\u{1b}[0m (dev)\n")
        .prints_error("\u{1b}[31mError\u{1b}[0m: no \u{1b}[1;4mnosuch:index:Thing\u{1b}[0m\n");
    let place = TestWorkspace::new(&answer.clone());
    let agent = place.serve(&["--stack", "dev"]).await;
    let mut client = agent.automation().await;
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let result = within_deadline("the result", events_and_result(stream))
        .await
        .1;
    let result = result.unwrap();
    assert_eq!(result.stdout, "Updating (dev)\n");
    assert_eq!(result.stderr, "Error: no nosuch:index:Thing\n");

    place
        .stand_in
        .set_script(&TestWorkspace::script(&answer.exits(1)));
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let status = within_deadline("the failure", events_and_result(stream))
        .await
        .1;
    let status = status.unwrap_err();
    let expected = "stdout: Updating (dev)\n\nstderr: Error: no nosuch:index:Thing\n";
    assert!(status.message().contains(expected), "{status}");
    assert!(!agent.log().contains('\u{1b}'), "{}", agent.log());
}

#[tokio::test]
async fn unknown_events_pass_through() {
    for version in VERSIONS {
        passes_strange_events_through(version).await;
    }
}

async fn passes_strange_events_through(version: &str) {
    let strange = json!({
        "sequence": 0, "brandNewEvent": {"list": [1, null, true, 2.5], "text": "<&>"}, "extra": "field"
    });
    let answer = Reply::new().event(strange.clone());
    let place = TestWorkspace::scripted(&TestWorkspace::script(&answer).version(version));
    let agent = place.serve(&["--stack", "dev"]).await;
    let mut client = agent.automation().await;
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let (events, _) = within_deadline("the event", events_and_result(stream)).await;
    let [event] = <[_; 1]>::try_from(events).unwrap();
    assert_eq!(
        event["brandNewEvent"]["text"],
        strange["brandNewEvent"]["text"]
    );
    assert_eq!(event["brandNewEvent"]["list"][1], Value::Null);
    assert_eq!(event["extra"], "field");

    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    let event = within_deadline("the event", events.message())
        .await
        .unwrap()
        .unwrap();
    let Some(run_event::Event::EngineEvent(json)) = event.event else {
        panic!("no event");
    };
    assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), strange);
}
