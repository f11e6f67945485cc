//! Interrupted runs, which may have left a lock.

use pko_api::Update;

use super::*;
use crate::condition_set::find;

fn lost_beside(update: &Value, others: &[Value]) -> Vec<InterruptedRun> {
    let update = serde_json::from_value(update.clone()).unwrap();
    let others: Vec<Update> = others
        .iter()
        .map(|other| serde_json::from_value(other.clone()).unwrap())
        .collect();
    interrupted_runs(&update, &others)
}

/// A stored Update with a lost run, and the next Update.
fn pair() -> (Value, Value) {
    let outcome = fixture().progressing().replaced().decide();
    let mut gone = fixture().update;
    gone["status"] = serde_json::to_value(outcome.status().unwrap()).unwrap();
    let mut next = fixture().update;
    next["metadata"]["uid"] = json!("next");
    (gone, next)
}

#[test]
fn interrupted_run_of_a_lost_pod_has_its_times() {
    let (gone, next) = pair();
    let begun =
        fixture().progressing().update["status"]["conditions"][0]["lastTransitionTime"].clone();
    let [lost] = &lost_beside(&next, std::slice::from_ref(&gone))[..] else {
        panic!("one lost run")
    };
    assert_eq!(json!(lost.id), gone["metadata"]["uid"]);
    assert_eq!(lost.begun, begun.as_str().unwrap().parse().unwrap());
    assert_eq!(lost.lost, now());
}

#[test]
fn interrupted_run_starts_when_the_agent_reports() {
    let outcome = RunOutcome {
        reason: Some("Aborted".to_owned()),
        start: Some(ago(50).parse().unwrap()),
        ..RunOutcome::default()
    };
    let outcome = fixture().progressing().ended(outcome).decide();
    let (mut gone, next) = pair();
    gone["status"] = serde_json::to_value(outcome.status().unwrap()).unwrap();
    let [lost] = &lost_beside(&next, &[gone])[..] else {
        panic!("one lost run")
    };
    assert_eq!((lost.begun, lost.lost), (ago(50).parse().unwrap(), now()));
}

#[test]
fn killed_pulumi_is_an_interrupted_run() {
    let (mut gone, next) = pair();
    for class in [FailureClass::Interrupted, FailureClass::Canceled] {
        let outcome = RunOutcome {
            reason: Some("UpdateFailed".to_owned()),
            class: Some(class),
            start: Some(ago(50).parse().unwrap()),
            ..RunOutcome::default()
        };
        let outcome = fixture().progressing().ended(outcome).decide();
        gone["status"] = serde_json::to_value(outcome.status().unwrap()).unwrap();
        let [lost] = &lost_beside(&next, std::slice::from_ref(&gone))[..] else {
            panic!("one lost run")
        };
        assert_eq!((lost.begun, lost.lost), (ago(50).parse().unwrap(), now()));
    }
}

#[test]
fn foreign_run_is_interrupted_with_its_pod() {
    let (mut gone, next) = pair();
    gone["status"]["workspaceInstance"] = Value::Null;
    assert_eq!(lost_beside(&next, &[gone]).len(), 1);
}

#[test]
fn other_runs_are_not_interrupted() {
    let (gone, next) = pair();
    let changed = |change: Value| {
        let mut changed = gone.clone();
        merge(&mut changed, change);
        changed
    };
    let of = |outcome: RunOutcome| {
        let outcome = fixture().progressing().ended(outcome).decide();
        let mut other = gone.clone();
        other["status"] = serde_json::to_value(outcome.status().unwrap()).unwrap();
        other
    };
    let failed = |reason: &str| RunOutcome {
        reason: Some(reason.to_owned()),
        start: Some(now()),
        ..RunOutcome::default()
    };
    let table = [
        ("it succeeded", of(succeeded())),
        ("it failed", of(failed("UpdateFailed"))),
        ("it was in conflict", of(failed("UpdateConflict"))),
        (
            "it was canceled before it began",
            of(RunOutcome {
                class: Some(FailureClass::Canceled),
                start: None,
                ..failed("Canceled")
            }),
        ),
        (
            "interrupted before it began",
            of(RunOutcome {
                start: None,
                ..failed("Aborted")
            }),
        ),
        ("it goes on", fixture().progressing().update),
        ("it waits", fixture().update),
        (
            "in another namespace",
            changed(json!({ "metadata": { "namespace": "other" } })),
        ),
        (
            "in another Workspace",
            changed(json!({ "spec": { "workspaceName": "other" } })),
        ),
        (
            "of another stack",
            changed(json!({ "spec": { "stackName": "other" } })),
        ),
        (
            "it is this one",
            changed(json!({ "metadata": { "uid": "next" } })),
        ),
        (
            "nobody knows when it began",
            changed(json!({ "status": { "startTime": null } })),
        ),
    ];
    for (what, other) in table {
        assert_eq!(lost_beside(&next, &[other]), [], "{what}");
    }
}

#[test]
fn run_notes_are_in_the_event_and_condition() {
    let outcome = RunOutcome {
        notes: vec!["removed the lock that run x had left behind".to_owned()],
        ..succeeded()
    };
    let outcome = fixture().progressing().ended(outcome).decide();
    let complete = find(
        &outcome.status().unwrap().conditions,
        ConditionType::Complete,
    )
    .unwrap();
    assert_eq!(
        complete.message,
        "removed the lock that run x had left behind"
    );
    let event = outcome
        .lines()
        .into_iter()
        .find(|line| line.contains("Updated stack"));
    assert!(
        event
            .unwrap()
            .ends_with("; removed the lock that run x had left behind")
    );
}
