//! Runs that belong to the agent.

use pko_proto::run::{
    AcknowledgeRunRequest, CancelRunRequest, ErrorClass, ListRunsRequest, RunState,
};
use pko_testkit::{Reply, Script};
use tonic::Code;

use crate::harness::{
    TestWorkspace, gated, get, remaining_events, secret, simple, update, wait_for_result, watch,
};

#[tokio::test]
async fn run_has_events_and_result() {
    let place = TestWorkspace::new(&simple());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let run = client.start_run(update("one")).await.unwrap().into_inner();
    assert_eq!(run.run_id, "one");
    let (numbers, result) = remaining_events(watch(&mut client, "one", 0).await).await;
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    let result = result.unwrap();
    let summary = result.summary.unwrap();
    assert_eq!((&*summary.result, &*summary.message), ("succeeded", "one"));
    assert!(summary.start_time.is_some() && summary.end_time.is_some());
    assert_eq!(
        result.permalink.as_deref(),
        Some("https://example.com/updates/1")
    );
    assert_eq!(result.project_info.unwrap().name, "demo");
    assert_eq!(result.outputs["size"].value, b"4");
    assert!(!result.outputs["size"].secret);
    assert_eq!(result.resource_changes["create"], 2);
    assert!(result.error.is_none());
    let run = get(&mut client, "one").await;
    assert_eq!(run.state(), RunState::Succeeded);
    assert_eq!(run.last_sequence, 5);
    assert!(run.result.is_some());
}

#[tokio::test]
async fn run_id_is_executed_once() {
    let place = TestWorkspace::new(&simple());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    client.start_run(update("one")).await.unwrap();
    wait_for_result(&mut client, "one").await;
    let again = client.start_run(update("one")).await.unwrap().into_inner();
    assert_eq!(again.state(), RunState::Succeeded);
    assert!(again.result.is_some());
    let run_id = "one".to_owned();
    client
        .acknowledge_run(AcknowledgeRunRequest { run_id })
        .await
        .unwrap();
    let again = client.start_run(update("one")).await.unwrap().into_inner();
    assert!(again.acknowledged && again.result.is_none());
    assert_eq!(place.count("up"), 1);
    let code = client.watch_run(pko_proto::run::WatchRunRequest {
        run_id: "one".to_owned(),
        after_sequence: 0,
    });
    let mut events = code.await.unwrap().into_inner();
    assert_eq!(
        events.message().await.unwrap_err().code(),
        Code::FailedPrecondition
    );
}

#[tokio::test]
async fn watcher_starts_at_any_sequence() {
    let place = TestWorkspace::new(&simple());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    wait_for_result(&mut client, "one").await;
    for (after, expected) in [
        (0, vec![1, 2, 3, 4, 5]),
        (3, vec![4, 5]),
        (4, vec![5]),
        (5, vec![]),
    ] {
        let (numbers, result) = remaining_events(watch(&mut client, "one", after).await).await;
        assert_eq!(numbers, expected);
        assert_eq!(result.is_some(), after < 5);
    }
}

#[tokio::test]
async fn disconnected_watcher_does_not_affect_run() {
    let place = TestWorkspace::new(&gated());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    assert_eq!(events.message().await.unwrap().unwrap().sequence, 1);
    drop(events);
    drop(client);
    let mut client = agent.runs().await;
    assert_eq!(get(&mut client, "one").await.state(), RunState::Running);
    let events = watch(&mut client, "one", 1).await;
    place.open_gate();
    let (numbers, result) = remaining_events(events).await;
    assert_eq!(numbers, [2, 3, 4]);
    assert_eq!(result.unwrap().summary.unwrap().result, "succeeded");
    assert_eq!(place.count("up"), 1);
}

#[tokio::test]
async fn queued_runs_keep_order_and_can_be_cancelled() {
    let place = TestWorkspace::new(&gated());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    for run_id in ["one", "two", "three"] {
        client.start_run(update(run_id)).await.unwrap();
    }
    let mut events = watch(&mut client, "one", 0).await;
    events.message().await.unwrap().unwrap();
    let list = client
        .list_runs(ListRunsRequest {})
        .await
        .unwrap()
        .into_inner();
    let states: Vec<_> = list
        .runs
        .iter()
        .map(|run| (&*run.run_id, run.state()))
        .collect();
    assert_eq!(
        states,
        [
            ("one", RunState::Running),
            ("two", RunState::Queued),
            ("three", RunState::Queued)
        ]
    );
    let run_id = "two".to_owned();
    let canceled = client
        .cancel_run(CancelRunRequest { run_id })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(canceled.state(), RunState::Canceled);
    place.open_gate();
    wait_for_result(&mut client, "three").await;
    assert_eq!(
        wait_for_result(&mut client, "two")
            .await
            .summary
            .unwrap()
            .result,
        "canceled"
    );
    assert_eq!(place.count("up"), 2);
    let calls = place.lines();
    assert!(calls.find("--message=one") < calls.find("--message=three"));
    assert!(!calls.contains("--message=two"));
}

#[tokio::test]
async fn crashed_run_is_interrupted_from_journal() {
    let place = TestWorkspace::new(&gated());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    client.start_run(update("two")).await.unwrap();
    let mut events = watch(&mut client, "one", 1).await;
    events.message().await.unwrap().unwrap();
    agent.kill().await;

    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let (numbers, result) = remaining_events(watch(&mut client, "one", 0).await).await;
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(get(&mut client, "one").await.state(), RunState::Interrupted);
    // The CLI that the first agent had started was stopped before anything else.
    assert!(agent.log().contains("Stopping a run of a previous agent"));
    let error = result.unwrap().error.unwrap();
    assert_eq!(error.class(), ErrorClass::Interrupted);
    let waiting = wait_for_result(&mut client, "two").await.error.unwrap();
    assert!(waiting.message.contains("before the run started"));
    assert_eq!(place.count("up"), 1);
}

#[tokio::test]
async fn results_survive_agent_restart() {
    let place = TestWorkspace::new(&simple());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let before = wait_for_result(&mut client, "one").await;
    agent.kill().await;
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let (numbers, after) = remaining_events(watch(&mut client, "one", 0).await).await;
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(after.unwrap(), before);
}

#[tokio::test]
async fn run_starts_few_processes() {
    let outputs = r#"{"password": "hunter2-secret", "size": 4}"#;
    let script = TestWorkspace::script(&secret()).on("stack output", Reply::new().prints(outputs));
    let place = TestWorkspace::scripted(&script);
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let result = wait_for_result(&mut client, "one").await;
    assert_eq!(result.outputs["password"].value, b"\"hunter2-secret\"");
    assert!(result.outputs["password"].secret && !result.outputs["size"].secret);
    assert_eq!(
        place.calls(),
        ["stack select", "stack init", "up --yes", "stack output"]
    );
    client.start_run(update("two")).await.unwrap();
    let result = wait_for_result(&mut client, "two").await;
    assert_eq!(result.outputs["password"].value, b"\"hunter2-secret\"");
    assert_eq!(place.calls()[4..], ["up --yes", "stack output"]);
    assert!(!agent.log().contains("hunter2-secret"));
}

#[tokio::test]
async fn deleted_stack_is_created_again() {
    let place = TestWorkspace::scripted(&Script::new());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    wait_for_result(&mut client, "one").await;
    place.stand_in.forget_stacks();
    client.start_run(update("two")).await.unwrap();
    assert!(wait_for_result(&mut client, "two").await.error.is_none());
    assert_eq!(place.count("stack init"), 2);
}

#[tokio::test]
async fn failed_run_has_text_and_class() {
    let locked = "error: the stack is currently locked by 1 lock(s).\n";
    let place = TestWorkspace::new(&Reply::new().prints("begun\n").prints_error(locked).exits(1));
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let result = wait_for_result(&mut client, "one").await;
    let error = result.error.unwrap();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert_eq!(error.info.unwrap().reason, "UpdateConflict");
    assert_eq!(error.exit_code, Some(1));
    let expected = "up failed: failed to run update: exit status 1\ncode: 1\nstdout: begun\n\n\
                    stderr: error: the stack is currently locked by 1 lock(s).\n\n\
                    hint: the stack is locked; the lock was not removed because its holder cannot be read.";
    assert!(error.message.starts_with(expected), "{}", error.message);
    assert_eq!(result.summary.unwrap().result, "failed");
    assert_eq!(result.stdout, "begun\n");
}

#[tokio::test]
async fn run_with_many_events_is_complete() {
    let place = TestWorkspace::new(&Reply::new().floods(10_000, 0));
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let (numbers, result) = remaining_events(watch(&mut client, "one", 0).await).await;
    assert!(result.unwrap().error.is_none());
    assert!(numbers.into_iter().eq(1..=10_001));
}

#[tokio::test]
async fn grandchild_holding_pipes_does_not_block_run() {
    let answer = Reply::new()
        .prints("said\n")
        .leaves_grandchild_until("gate");
    let place = TestWorkspace::new(&answer);
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let result = wait_for_result(&mut client, "one").await;
    assert_eq!(result.stdout, "said\n");
    assert!(result.error.is_none());
}

#[tokio::test]
async fn invalid_run_requests_are_rejected() {
    let place = TestWorkspace::new(&simple());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let mut no_operation = update("one");
    no_operation.operation = None;
    let mut no_stack = update("one");
    no_stack.stack = None;
    for request in [update("../one"), update(""), no_operation, no_stack] {
        let status = client.start_run(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    let run_id = "unknown".to_owned();
    let status = client
        .cancel_run(CancelRunRequest { run_id })
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(place.calls().is_empty());
}
