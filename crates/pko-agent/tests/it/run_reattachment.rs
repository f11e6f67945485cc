//! Callers that go away in the middle of a run and come back.

use pko_proto::run::{AcknowledgeRunRequest, ListRunsRequest, RunState};
use pko_testkit::{Interrupt, Reply, Script};

use crate::harness::{
    TestWorkspace, gated, get, remaining_events, update, wait_for_result, wait_until, watch,
    within_deadline,
};

/// How many events a run has.
const EVENTS: u64 = 100;

/// The caller is cut off at the beginning, in the middle and near the end, and each time finds the
/// run again: it misses no event and gets none twice, there is one result, and the CLI hears of
/// nothing. A hundred times, half of them with a CLI that writes its events into a file and half
/// with one that sends them.
#[tokio::test]
async fn disconnected_caller_reattaches_to_run() {
    for version in ["3.205.0", "3.259.0"] {
        assert_run_survives_disconnects(version, 50).await;
    }
}

async fn assert_run_survives_disconnects(version: &str, times: usize) {
    let place = TestWorkspace::scripted(&Script::new().version(version));
    let agent = place.serve(&[]).await;
    for round in 0..times {
        let seen = match round % 3 {
            0 => 0,
            1 => EVENTS / 2,
            _ => EVENTS - 1,
        };
        let (run_id, gate) = (format!("run-{round}"), format!("gate-{round}"));
        let answer = Reply::new()
            .floods(seen, 0)
            .waits_for(&gate)
            .floods(EVENTS - seen, 0);
        place
            .stand_in
            .set_script(&TestWorkspace::script(&answer).version(version));
        let cut_off = async {
            let mut client = agent.runs().await;
            client.start_run(update(&run_id)).await.unwrap();
            let mut events = watch(&mut client, &run_id, 0).await;
            for number in 1..=seen {
                assert_eq!(events.message().await.unwrap().unwrap().sequence, number);
            }
        };
        within_deadline("the events before the gate", cut_off).await;

        let mut client = agent.runs().await;
        let run = client
            .start_run(update(&run_id))
            .await
            .unwrap()
            .into_inner();
        assert!(!run.acknowledged && run.result.is_none());
        let events = watch(&mut client, &run_id, seen).await;
        place.stand_in.create(&gate);
        let (numbers, result) =
            within_deadline("the rest of the run", remaining_events(events)).await;
        assert!(numbers.into_iter().eq(seen + 1..=EVENTS + 1));
        assert!(result.unwrap().error.is_none());
        let run = get(&mut client, &run_id).await;
        assert_eq!(
            (run.state(), run.last_sequence),
            (RunState::Succeeded, EVENTS + 1)
        );
        let request = AcknowledgeRunRequest { run_id };
        client.acknowledge_run(request).await.unwrap();
    }
    let calls = place.stand_in.calls();
    let updates: Vec<_> = calls.iter().filter(|call| call.is("up")).collect();
    assert_eq!(updates.len(), times);
    assert!(
        updates
            .iter()
            .all(|call| call.signals.is_empty() && call.code == Some(0))
    );
    let listed = agent
        .runs()
        .await
        .list_runs(ListRunsRequest {})
        .await
        .unwrap();
    assert_eq!(listed.into_inner().runs.len(), times);
}

#[tokio::test]
async fn crash_leaves_cli_to_be_interrupted_first() {
    let answer = gated().on_interrupt(Interrupt::Obey { after: 0, code: 1 });
    let place = TestWorkspace::new(&answer);
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 1).await;
    events.message().await.unwrap().unwrap();
    agent.kill().await;

    place
        .stand_in
        .set_script(&TestWorkspace::script(&Reply::new()));
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("two")).await.unwrap();
    assert!(
        within_deadline("the next run", wait_for_result(&mut client, "two"))
            .await
            .error
            .is_none()
    );
    assert_eq!(get(&mut client, "one").await.state(), RunState::Interrupted);
    let calls = place.stand_in.calls();
    let updates: Vec<_> = calls.iter().filter(|call| call.is("up")).collect();
    assert_eq!(updates[0].signals, [2]);
    assert!(updates[0].ended.unwrap() <= updates[1].began);
}

#[tokio::test]
async fn crash_reports_finished_cli_as_interrupted() {
    let place = TestWorkspace::new(&gated());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 1).await;
    events.message().await.unwrap().unwrap();
    agent.kill().await;
    place.open_gate();
    wait_until("the end of the CLI", || has_ended(&place)).await;

    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let (numbers, result) = remaining_events(watch(&mut client, "one", 0).await).await;
    // What the CLI had to say after the crash may be lost; what was known before is not.
    assert!(numbers.starts_with(&[1, 2]), "{numbers:?}");
    let error = result.unwrap().error.unwrap();
    assert!(
        error.message.contains("the agent ended during the run"),
        "{error:?}"
    );
    assert!(
        place
            .stand_in
            .calls()
            .iter()
            .all(|call| call.signals.is_empty())
    );
}

/// The last call has ended by itself.
fn has_ended(place: &TestWorkspace) -> bool {
    let calls = place.stand_in.calls();
    calls.last().is_some_and(|call| call.code.is_some())
}
