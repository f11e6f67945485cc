//! The manager ends a run that its agent does not end in time.

use std::time::Duration;

use super::*;

/// A run that started 1,000 seconds ago.
fn begun(limit: Option<u64>) -> UpdateFixture {
    let mut fixture = fixture().progressing();
    fixture.run_timeout = limit.map(Duration::from_secs);
    fixture
}

fn ended(limit: &str) -> String {
    let text = format!(
        "the workspace's agent did not end the operation within 15 minutes after its time limit of {limit}; \
         what it had done by then is in the stack's state"
    );
    aborted("Aborted", &text)
}

#[test]
fn run_beyond_its_limit_and_patience_is_aborted() {
    let waits: &[&str] = &["run", "watch run", "again in 60s"];
    let (by_flag, own) = (ended("100s"), ended("50s"));
    let own_limit = |limit| begun(Some(limit)).with(json!({ "spec": { "timeoutSeconds": 50 } }));
    let mut queued = begun(Some(100));
    queued.preceding_runs = PrecedingRuns::InProgress;
    let mut after_another = begun(Some(100));
    after_another.preceding_runs =
        PrecedingRuns::Ended(Some(now() - SignedDuration::from_secs(999)));
    let mut new_manager = begun(Some(100));
    new_manager.leading_since = now() - SignedDuration::from_secs(899);
    check([
        ("no limit", begun(None), waits),
        ("some time is left", begun(Some(101)), waits),
        (
            "by the flag",
            begun(Some(100)),
            &["run", &by_flag, FAILED, "settled"],
        ),
        (
            "its own limit comes first",
            own_limit(9_999),
            &["run", &own, FAILED, "settled"],
        ),
        ("behind another run in its agent", queued, waits),
        ("after another run in its agent", after_another, waits),
        ("of a manager that has just started", new_manager, waits),
    ]);
    assert_eq!(
        begun(Some(100)).decide().request_names(),
        ["workspace", "admission", "agent", "run", "preceding runs"],
        "the agent is asked first: a result is never thrown away"
    );
    let result = begun(Some(1)).ended(succeeded()).decide();
    assert!(result.lines()[1].contains("UpdateSucceeded"));
}

#[test]
fn run_of_an_unreachable_agent_is_aborted_at_its_deadline() {
    let ended = ended("100s");
    check([
        (
            "in time",
            begun(Some(101)).unreachable(Some(HERE)),
            &["agent", unreached(), "again in 5s"],
        ),
        (
            "overdue",
            begun(Some(100)).unreachable(Some(HERE)),
            &["agent", &ended, FAILED, "settled"],
        ),
    ]);
}

/// Its finalizer must not hold the Stack for ever.
#[test]
fn deleted_run_that_its_agent_does_not_end_is_given_up() {
    let deleted = |seconds| {
        let deleted = json!({ "metadata": { "deletionTimestamp": ago(seconds) } });
        begun(None).with(deleted)
    };
    assert_eq!(
        deleted(899).decide().lines().last().unwrap(),
        "again in 60s"
    );
    let given_up = deleted(900).decide();
    assert_eq!(
        given_up.request_names().last(),
        Some(&"cancel"),
        "the agent is asked to end it"
    );
    let status = given_up.status().unwrap();
    assert!(state(status).contains("Complete=True/Failed canceled: the Update was deleted; "));
    assert!(state(status).contains("within 15 minutes after the deletion of the Update"));
    let unreachable = deleted(900).unreachable(Some(HERE)).decide();
    assert!(unreachable.lines()[1].contains("Complete=True/Failed"));
}

fn in_pod(uid: &str, pod: &str, begun: i64, complete: Option<i64>) -> pko_api::Update {
    let condition = |kind: &str, is_true: bool, seconds: i64| {
        let status = if is_true { "True" } else { "False" };
        json!({
            "type": kind, "status": status, "reason": "X", "message": "", "lastTransitionTime": ago(seconds),
        })
    };
    serde_json::from_value(json!({
        "metadata": { "name": uid, "namespace": "shop", "uid": uid },
        "spec": { "workspaceName": "demo" },
        "status": { "workspaceInstance": pod, "conditions": [
            condition("Progressing", complete.is_none(), begun),
            condition("Complete", complete.is_some(), complete.unwrap_or(begun)),
        ] },
    }))
    .unwrap()
}

#[test]
fn preceding_runs_are_those_of_the_same_pod() {
    let own = in_pod("own", "pod-1", 100, None);
    let ended =
        |seconds: i64| PrecedingRuns::Ended(Some(now() - SignedDuration::from_secs(seconds)));
    let earlier = in_pod("a", "pod-1", 200, None);
    let later = in_pod("b", "pod-1", 50, None);
    let elsewhere = in_pod("c", "pod-2", 200, None);
    let complete = in_pod("d", "pod-1", 300, Some(70));
    let table: [(&[&pko_api::Update], PrecedingRuns); 4] = [
        (&[&own, &later, &elsewhere], PrecedingRuns::Ended(None)),
        (&[&own, &earlier, &complete], PrecedingRuns::InProgress),
        (&[&own, &later, &complete], ended(70)),
        (&[], PrecedingRuns::Ended(None)),
    ];
    for (others, expected) in table {
        assert_eq!(preceding_runs(&own, others.iter().copied()), expected);
    }
}
