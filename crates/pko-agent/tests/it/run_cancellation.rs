//! How a run is stopped: by its caller, by its time limit, by the end of the agent.

use pko_proto::run::{AcknowledgeRunRequest, ErrorClass, RunState};
use tonic::Code;

use crate::harness::{
    TestWorkspace, cancel, get, obedient, remaining_events, simple, stubborn, update,
    wait_for_result, watch,
};

#[tokio::test]
async fn obedient_run_is_only_interrupted() {
    let place = TestWorkspace::new(&obedient());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    events.message().await.unwrap().unwrap();
    let run_id = "one".to_owned();
    let status = client
        .acknowledge_run(AcknowledgeRunRequest { run_id })
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    cancel(&mut client, "one").await;
    let (numbers, result) = remaining_events(events).await;
    assert_eq!(numbers, [2, 3]);
    let error = result.unwrap().error.unwrap();
    assert_eq!(error.class(), ErrorClass::Canceled);
    assert_eq!(error.exit_code, Some(8));
    assert!(error.message.contains("error: update canceled"));
    assert_eq!(get(&mut client, "one").await.state(), RunState::Canceled);
    assert!(!agent.log().contains("Killing pulumi"));
}

#[tokio::test]
async fn stubborn_run_is_killed_after_patience() {
    let place = TestWorkspace::new(&stubborn());
    let agent = place.serve(&["--stop-patience", "0"]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    events.message().await.unwrap().unwrap();
    cancel(&mut client, "one").await;
    let error = remaining_events(events).await.1.unwrap().error.unwrap();
    assert!(
        error
            .message
            .starts_with("up failed: failed to run update: signal: killed")
    );
    assert_eq!(error.exit_code, Some(-1));
    let log = agent.log();
    assert!(log.find("Interrupting pulumi") < log.find("Killing pulumi"));
    assert_eq!(get(&mut client, "one").await.state(), RunState::Canceled);
}

#[tokio::test]
async fn time_limit_stops_run() {
    let place = TestWorkspace::new(&obedient());
    let agent = place.serve(&["--stop-patience", "0"]).await;
    let mut client = agent.runs().await;
    let mut request = update("one");
    request.time_limit = Some(prost_types::Duration {
        seconds: 0,
        nanos: 1,
    });
    client.start_run(request).await.unwrap();
    let error = wait_for_result(&mut client, "one").await.error.unwrap();
    assert_eq!(error.class(), ErrorClass::Canceled);
    assert!(error.message.contains("longer than its time limit"));
}

#[tokio::test]
async fn shutdown_interrupts_runs_and_waits() {
    let place = TestWorkspace::new(&obedient());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    client.start_run(update("two")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    events.message().await.unwrap().unwrap();
    agent.terminate();
    let (_, result) = remaining_events(events).await;
    let error = result.unwrap().error.unwrap();
    assert_eq!(error.class(), ErrorClass::Interrupted);
    assert!(error.message.contains("error: update canceled"));
    drop(client);
    assert_eq!(agent.wait_for_exit().await, Some(0));
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    for run_id in ["one", "two"] {
        assert_eq!(
            get(&mut client, run_id).await.state(),
            RunState::Interrupted
        );
    }
    assert_eq!(place.count("up"), 1);
}

#[tokio::test]
async fn agent_survives_end_of_its_parent() {
    let place = TestWorkspace::new(&simple());
    let mut agent = place.serve(&["--own-session"]).await;
    let session = rustix::process::getsid(Some(agent.process())).unwrap();
    assert_eq!(session, agent.process());
    agent.close_log().await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    assert!(wait_for_result(&mut client, "one").await.error.is_none());
}
