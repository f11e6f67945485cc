//! A refresh that expects no changes comes before the update.

use super::*;

fn careful() -> StackFixture {
    fixture().spec(json!({ "expectNoRefreshChanges": true }))
}

fn refreshed(failures: Value) -> Value {
    json!({
        "type": "refresh", "lastSuccessfulCommit": "2", "lastResyncTime": ago(1), "failures": failures,
        "reconcileRequest": "",
    })
}

#[test]
fn refresh_precedes_update() {
    let outcome = careful().decide();
    assert_eq!(outcome.lines()[2], "create refresh");
    let update = outcome.created();
    assert_eq!(update.spec.expect_no_changes, Some(true));
    assert_eq!(
        outcome.status().unwrap().applied,
        Some(false),
        "it applies nothing"
    );
}

#[test]
fn update_follows_refresh_at_once() {
    let outcome = careful().last(refreshed(json!(null))).decide();
    assert_eq!(outcome.lines()[2], CREATE_UP);
    assert_eq!(outcome.created().spec.expect_no_changes, None);
    assert_eq!(outcome.status().unwrap().applied, Some(true));
    assert!(
        outcome
            .lines()
            .contains(&"event StackUpdateDetected: Refresh found no changes".to_owned())
    );
}

#[test]
fn refresh_is_bound_to_revision_spec_and_request() {
    let done = || careful().last(refreshed(json!(null)));
    for (sentence, fixture) in [
        ("a new revision", done().source(Ok(revision("4")))),
        (
            "an edit",
            done().with(json!({ "metadata": { "generation": 4 } })),
        ),
        ("a request", done().request("now")),
    ] {
        assert_eq!(fixture.decide().lines()[2], "create refresh", "{sentence}");
    }
}

#[test]
fn successful_refresh_does_not_mark_revision() {
    let ended = json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "refresh" },
        "status": { "conditions": [condition("Complete", "True", "Updated", "")] },
    });
    let fixture = careful()
        .last(json!({ "state": "failed", "failures": 1, "lastSuccessfulCommit": "2" }))
        .current(ended)
        .status(json!({ "currentUpdate": { "attempt": 2 } }));
    let outcome = fixture.decide();
    assert_eq!(outcome.lines()[2], CREATE_UP, "in the same pass");
    let status = outcome.status().unwrap();
    let last = status.last_update.clone().unwrap();
    assert_eq!(last.last_successful_commit.as_deref(), Some("2"));
    assert_eq!(last.failures, Some(1), "the failures before still count");
    assert_eq!(status.current_update.clone().unwrap().attempt, Some(2));
}

#[test]
fn refresh_with_changes_is_a_failure() {
    let failed = careful().failed(0, 0).last(json!({
        "state": "failed", "type": "refresh", "lastResyncTime": ago(0), "message": "changes were found",
    }));
    assert!(failed.decide().lines()[1].ends_with(": changes were found"));
    let again = careful()
        .failed(0, 10)
        .last(json!({ "state": "failed", "type": "refresh", "lastResyncTime": ago(10) }));
    assert_eq!(again.decide().lines()[2], "create refresh");
}

#[test]
fn refresh_is_only_for_updates() {
    assert_eq!(
        careful().spec(json!({ "preview": true })).decide().lines()[2],
        "create preview"
    );
    let awaiting_destroy = careful()
        .spec(json!({ "destroyOnFinalize": true }))
        .deleting()
        .last(json!({ "generation": 2 }));
    assert_eq!(awaiting_destroy.decide().lines()[2], CREATE_DESTROY);
    let ready = careful().last(json!({}));
    assert_eq!(ready.decide().lines()[1], "status Ready");
}
