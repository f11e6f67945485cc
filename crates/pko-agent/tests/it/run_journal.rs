//! A journal that is damaged, or that cannot be read or written.

use std::{fs, path::PathBuf};

use pko_proto::run::{ErrorClass, RunState};
use tonic::Code;

use crate::harness::{
    TestWorkspace, gated, get, simple, update, wait_for_result, watch, within_deadline,
};

fn folder(place: &TestWorkspace, run_id: &str) -> PathBuf {
    place.path(".pko/runs").join(run_id)
}

/// A workspace in which a run has ended, and whose agent was killed.
async fn with_finished_run() -> TestWorkspace {
    let place = TestWorkspace::new(&simple());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    wait_for_result(&mut client, "one").await;
    agent.kill().await;
    place
}

#[tokio::test]
async fn damaged_record_is_interrupted_and_not_restarted() {
    let place = with_finished_run().await;
    fs::write(folder(&place, "one").join("state.json"), "{\"run_id\":").unwrap();
    for _ in 0..2 {
        let agent = place.serve(&[]).await;
        let mut client = agent.runs().await;
        let run = client.start_run(update("one")).await.unwrap().into_inner();
        assert_eq!(run.state(), RunState::Interrupted);
        let error = run.result.unwrap().error.unwrap();
        assert_eq!(error.class(), ErrorClass::Interrupted);
        assert!(error.message.contains("is damaged"), "{error:?}");
        agent.kill().await;
    }
    assert_eq!(place.count("up"), 1);
}

/// A folder in place of a file is an error that is not "not found", as that of a broken disk.
#[tokio::test]
async fn unreadable_record_keeps_run_from_restarting() {
    let place = with_finished_run().await;
    let record = folder(&place, "one").join("state.json");
    let aside = place.path("record");
    fs::rename(&record, &aside).unwrap();
    fs::create_dir(&record).unwrap();
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let refused = client.start_run(update("one")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Internal);
    let text = refused.message();
    assert!(text.contains("is not started again"), "{text}");
    assert!(text.contains("state.json"), "{text}");
    // Others are not concerned.
    client.start_run(update("two")).await.unwrap();
    wait_for_result(&mut client, "two").await;
    assert_eq!(place.count("up"), 2);

    fs::remove_dir(&record).unwrap();
    fs::rename(&aside, &record).unwrap();
    let run = client.start_run(update("one")).await.unwrap().into_inner();
    assert_eq!(run.state(), RunState::Succeeded);
    assert!(run.result.is_some());
    assert_eq!(place.count("up"), 2);
}

#[tokio::test]
async fn unrecordable_run_is_refused() {
    let place = TestWorkspace::new(&simple());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    fs::write(folder(&place, "one"), "").unwrap();
    let refused = client.start_run(update("one")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let text = refused.message();
    assert!(text.contains("the agent cannot record it"), "{text}");
    assert!(text.contains(".pko/runs"), "{text}");
    assert_eq!(place.calls(), [""; 0]);
}

#[tokio::test]
async fn run_that_becomes_unrecordable_does_not_begin() {
    let place = TestWorkspace::new(&gated());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    client.start_run(update("two")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    within_deadline("the first run", events.message())
        .await
        .unwrap();
    let two = folder(&place, "two");
    fs::remove_dir_all(&two).unwrap();
    fs::write(&two, "").unwrap();
    place.open_gate();
    let result = within_deadline("the second run", wait_for_result(&mut client, "two")).await;
    let error = result.error.unwrap();
    assert_eq!(error.class(), ErrorClass::Transient);
    assert!(error.message.contains("cannot record it"), "{error:?}");
    assert_eq!(get(&mut client, "one").await.state(), RunState::Succeeded);
    client.start_run(update("three")).await.unwrap();
    let third = wait_for_result(&mut client, "three").await;
    assert!(third.error.is_none());
    assert_eq!(place.count("up"), 2);
}
