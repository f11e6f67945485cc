//! The agent as the first process of a container, which reaps all others.

use pko_proto::run::RunState;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{
    Agent, TestWorkspace, children, get, obedient, remaining_events, simple, update,
    wait_for_result, wait_until, watch,
};

/// An agent that is the first process, and that process as others see it.
async fn first_process(place: &TestWorkspace) -> Option<(Agent, Pid)> {
    let Some(agent) = place.serve_first(&[]).await else {
        pko_testkit::skip("this machine makes no namespaces for processes");
        return None;
    };
    let reaper = children(agent.process())[0];
    Some((agent, reaper))
}

#[tokio::test]
async fn orphans_of_a_run_are_reaped() {
    let place = TestWorkspace::new(&simple().leaves_grandchild_until("gate"));
    let Some((agent, reaper)) = first_process(&place).await else {
        return;
    };
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    assert!(wait_for_result(&mut client, "one").await.error.is_none());
    wait_until("the orphan is the first process's", || {
        children(reaper).len() == 2
    })
    .await;
    place.open_gate();
    wait_until("only the agent is left", || children(reaper).len() == 1).await;
}

#[tokio::test]
async fn signal_and_exit_code_pass_through_init() {
    let place = TestWorkspace::new(&obedient());
    let Some((agent, reaper)) = first_process(&place).await else {
        return;
    };
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    events.message().await.unwrap().unwrap();
    kill_process(reaper, Signal::TERM).unwrap();
    let result = remaining_events(events).await.1.unwrap();
    drop(client);
    assert!(result.error.unwrap().message.contains("update canceled"));
    assert_eq!(agent.wait_for_exit().await, Some(0));
    let again = place.serve(&[]).await;
    let state = get(&mut again.runs().await, "one").await.state();
    assert_eq!(state, RunState::Interrupted, "nothing is lost");
}
