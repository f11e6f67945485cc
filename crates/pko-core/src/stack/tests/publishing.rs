//! Where a result goes besides the status: outputs into objects, and Updates that are more than are
//! kept.

use super::*;

/// An Update of this kind that ended, well or not, with this in its status.
fn ended(operation: &str, failed: bool, fields: Value) -> Value {
    let failed = if failed { "True" } else { "False" };
    let mut update = json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": operation },
        "status": { "conditions": [
            condition("Failed", failed, "R", ""), condition("Complete", "True", "Updated", ""),
        ] },
    });
    merge(&mut update, json!({ "status": fields }));
    update
}

fn wants_outputs() -> StackFixture {
    fixture().spec(json!({ "outputsTo": [{ "kind": "Secret", "name": "outputs" }] }))
}

fn published(outcome: &StackOutcome) -> Vec<Option<String>> {
    let requests = outcome.requests.iter();
    let published = requests.filter_map(|request| match request {
        StackStep::Write(StackWrite::PublishOutputs(secret)) => Some(secret.clone()),
        _ => None,
    });
    published.collect()
}

#[test]
fn outputs_are_written_once_after_an_update_that_succeeded() {
    let named = || json!({ "outputs": "demo-2-stack-outputs" });
    let secret = || Some("demo-2-stack-outputs".to_owned());
    for (sentence, fixture, expected) in [
        (
            "an update with outputs",
            wants_outputs().current(ended("up", false, named())),
            vec![secret()],
        ),
        (
            "an update without outputs",
            wants_outputs().current(ended("up", false, json!({}))),
            vec![None],
        ),
        (
            "an update that failed",
            wants_outputs().current(ended("up", true, named())),
            vec![],
        ),
        (
            "a destroy",
            wants_outputs().current(ended("destroy", false, json!({}))),
            vec![],
        ),
        (
            "a preview",
            wants_outputs().current(ended("preview", false, json!({}))),
            vec![],
        ),
        (
            "a refresh",
            wants_outputs().current(ended("refresh", false, json!({}))),
            vec![],
        ),
        (
            "a Stack without targets",
            fixture().current(ended("up", false, named())),
            vec![],
        ),
        (
            "a Stack without a new result",
            wants_outputs().last(json!({})),
            vec![],
        ),
    ] {
        assert_eq!(published(&fixture.decide()), expected, "{sentence}");
    }
}

#[test]
fn unwritable_outputs_object_is_reported_after_success() {
    let problem = "the Secret \"outputs\" is another's";
    let mut fixture = wants_outputs().current(ended("up", false, json!({ "outputs": "o" })));
    fixture.published = Err(problem.to_owned());
    assert_eq!(
        fixture.decide().lines(),
        [
            "in-sync",
            "status Ready",
            "release demo-2",
            "event StackCreated: Successfully updated stack",
            &format!("event! StackOutputRetrievalFailure: {problem}"),
            "settled",
        ]
    );
    let last = fixture
        .decide()
        .status()
        .unwrap()
        .last_update
        .clone()
        .unwrap();
    assert_eq!(last.message.as_deref(), Some(problem));
    assert_eq!(last.last_successful_commit.as_deref(), Some("3"));
}

#[test]
fn updates_are_counted_whenever_another_one_has_ended() {
    for limits in [
        json!({ "successfulUpdatesHistoryLimit": 1 }),
        json!({ "failedUpdatesHistoryLimit": 0 }),
    ] {
        for failed in [false, true] {
            let fixture = fixture()
                .spec(limits.clone())
                .current(ended("up", failed, json!({})));
            let lines = fixture.decide().lines();
            let at = |line: &str| lines.iter().position(|found| found == line);
            let (released, pruned) = (at("release demo-2"), at("prune"));
            assert!(released.is_some() && released < pruned, "{lines:?}");
        }
        let settled = fixture().spec(limits).last(json!({})).decide().lines();
        assert!(!settled.contains(&"prune".to_owned()), "{settled:?}");
    }
    let unlimited = fixture().current(ended("up", false, json!({})));
    let lines = unlimited.decide().lines();
    assert!(!lines.contains(&"prune".to_owned()), "{lines:?}");
}

/// The most that one pass may have as effects: see `STACK_BOUNDS`.
#[test]
fn fullest_pass_has_all_effects_in_order() {
    let mut fixture = wants_outputs()
        .spec(json!({ "workspaceReclaimPolicy": "Delete", "successfulUpdatesHistoryLimit": 1 }))
        .current(ended(
            "up",
            false,
            json!({ "outputs": "demo-2-stack-outputs" }),
        ));
    fixture.outputs = Some(StackOutputs::new());
    fixture.published = Err("spec.outputsTo[0]: forbidden".to_owned());
    let kinds: Vec<String> = fixture
        .decide()
        .lines()
        .iter()
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        [
            "in-sync",
            "delete workspace",
            "status Ready",
            "release demo-2",
            "prune",
            "event StackCreated",
            "event! StackOutputRetrievalFailure",
            "event WorkspaceDeleted",
            "settled",
        ]
    );
}
