//! What a failure means for the next attempt: whether it counts, when it is tried again, what is
//! said.

use pko_api::pulumi::v1::LastUpdate;

use super::*;

/// A failure of this class was absorbed after that many retries, just now.
fn failed_as(class: &str, retries: i64) -> StackFixture {
    fixture().last(json!({
        "state": "failed", "failureClass": class, "retries": retries, "lastResyncTime": ago(0),
        "message": "no route to host",
    }))
}

fn ended(class: Value) -> Value {
    json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "up" },
        "status": { "message": "boom", "failureClass": class, "conditions": [
            condition("Failed", "True", "UpdateFailed", ""), condition("Complete", "True", "Updated", ""),
        ] },
    })
}

fn condition_after(fixture: &StackFixture) -> String {
    fixture.decide().lines()[1].clone()
}

fn requeue_after(fixture: &StackFixture) -> String {
    fixture.decide().lines().last().unwrap().clone()
}

#[test]
fn transient_failures_are_not_counted() {
    for (class, counts) in [
        (json!("transient"), false),
        (json!("interrupted"), false),
        (json!("conflict"), false),
        (json!("program"), true),
        (json!("authentication"), true),
        (json!("configuration"), true),
        (json!("canceled"), true),
        (json!("something new"), true),
        (json!(null), true),
    ] {
        let fixture = fixture()
            .last(json!({ "state": "failed", "failures": 1 }))
            .current(ended(class.clone()));
        let last = fixture
            .decide()
            .status()
            .unwrap()
            .last_update
            .clone()
            .unwrap();
        let expected = if counts {
            (Some(2), None)
        } else {
            (Some(1), Some(1))
        };
        assert_eq!((last.failures, last.retries), expected, "{class}");
        assert_eq!(last.failure_class.as_deref(), class.as_str(), "{class}");
    }
}

#[test]
fn uncounted_first_attempt_stays_first() {
    let transient = fixture().current(ended(json!("transient")));
    let last = |fixture: &StackFixture| {
        fixture
            .decide()
            .status()
            .unwrap()
            .last_update
            .clone()
            .unwrap()
    };
    let once = last(&transient);
    assert_eq!((once.failures, once.retries), (None, Some(1)));
    let after = |previous: LastUpdate, class| {
        let mut fixture = fixture().current(ended(class));
        fixture.stack["status"]["lastUpdate"] = serde_json::to_value(previous).unwrap();
        last(&fixture)
    };
    let twice = after(once.clone(), json!("transient"));
    assert_eq!((twice.failures, twice.retries), (None, Some(2)));
    let counted = after(once, json!("program"));
    assert_eq!((counted.failures, counted.retries), (Some(0), None));
}

#[test]
fn transient_failures_are_retried_soon_and_forever() {
    for (retries, requeue) in [
        (1, "again in 10s"),
        (2, "again in 30s"),
        (3, "again in 90s"),
        (4, "again in 270s"),
        (5, "again in 600s"),
        (5_000, "again in 600s"),
    ] {
        let fixture = failed_as("transient", retries);
        assert_eq!(requeue_after(&fixture), requeue, "{retries}");
        assert!(
            condition_after(&fixture).starts_with("status Reconciling RetryingAfterFailure: "),
            "never stalled"
        );
    }
    assert_eq!(
        condition_after(&failed_as("interrupted", 2)),
        "status Reconciling RetryingAfterFailure: 2 attempts of up failed for reasons outside the stack; next attempt at \
         2023-11-14T22:13:50Z, or when the spec or source changes: no route to host"
    );
}

#[test]
fn conflict_is_retried_if_requested() {
    let conflict = |again: bool, retries| {
        failed_as("conflict", retries).spec(json!({ "retryOnUpdateConflict": again }))
    };
    let patient = conflict(true, 1);
    assert!(condition_after(&patient).starts_with("status Reconciling RetryingAfterFailure: "));
    assert_eq!(requeue_after(&patient), "again in 10s");

    assert_eq!(
        condition_after(&conflict(false, 1)),
        "status Stalled UpdateConflict: another update holds the stack; next attempt at 2023-11-14T22:18:20Z, or when the \
         spec or source changes: no route to host"
    );
    for (retries, requeue) in [
        (1, "again in 300s"),
        (2, "again in 900s"),
        (20, "again in 86400s"),
    ] {
        assert_eq!(requeue_after(&conflict(false, retries)), requeue, "slowly");
    }
}

#[test]
fn failing_stack_is_retried_with_backoff() {
    let failed = |failures, spec: Value| fixture().spec(spec).failed(failures, 0);
    for (failures, spec, stalled, requeue) in [
        (2, json!({}), false, "again in 90s"),
        (3, json!({}), true, "again in 270s"),
        (8, json!({}), true, "again in 65610s"),
        (9, json!({}), true, "again in 86400s"),
        (
            9,
            json!({ "retryMaxBackoffDurationSeconds": 3_600 }),
            true,
            "again in 3600s",
        ),
        (3, json!({ "retryLimit": 5 }), false, "again in 270s"),
        (5, json!({ "retryLimit": 5 }), true, "again in 2430s"),
        (0, json!({ "retryLimit": 0 }), true, "again in 10s"),
        (50, json!({ "retryLimit": -1 }), false, "again in 86400s"),
    ] {
        let fixture = failed(failures, spec.clone());
        let is_stalled = condition_after(&fixture).starts_with("status Stalled UpdateFailed: ");
        assert_eq!(is_stalled, stalled, "{failures} {spec}");
        assert_eq!(requeue_after(&fixture), requeue, "{failures} {spec}");
    }
}

#[test]
fn resync_resets_retries() {
    let resynced = |failures, seconds_ago| {
        fixture()
            .spec(json!({ "continueResyncOnCommitMatch": true, "resyncFrequencySeconds": 600 }))
            .failed(failures, seconds_ago)
    };
    assert_eq!(
        requeue_after(&resynced(5, 0)),
        "again in 600s",
        "sooner than the retry"
    );
    assert_eq!(
        requeue_after(&resynced(3, 0)),
        "again in 270s",
        "the retry comes first"
    );
    let outcome = resynced(5, 600).decide();
    assert_eq!(
        outcome.lines()[3..5],
        [
            "release demo-1",
            "event StackUpdateDetected: Resync time elapsed: 10m0s"
        ]
    );
    let current = outcome.status().unwrap().current_update.clone().unwrap();
    assert_eq!(
        current.attempt,
        Some(0),
        "the failures before are forgotten"
    );
    let retried = resynced(3, 270).decide();
    let current = retried.status().unwrap().current_update.clone().unwrap();
    assert_eq!(current.attempt, Some(4), "a retry is one more");
}

#[test]
fn attempt_number_equals_failure_count() {
    let mut update = ended(json!("program"));
    merge(&mut update, json!({ "metadata": { "name": "demo-2" } }));
    let fixture = fixture()
        .failed(7, 60)
        .current(update)
        .status(json!({ "currentUpdate": { "attempt": 0 } }));
    let last = fixture
        .decide()
        .status()
        .unwrap()
        .last_update
        .clone()
        .unwrap();
    assert_eq!(last.failures, Some(0), "in spite of earlier failures");
}

#[test]
fn failure_is_in_stack_condition() {
    let long = "x".repeat(5_000);
    let fixture = fixture()
        .failed(1, 0)
        .last(json!({ "state": "failed", "message": long, "lastResyncTime": ago(0) }));
    let condition = condition_after(&fixture);
    assert!(condition.contains("changes: xxx"), "{condition}");
    assert!(condition.len() < 1_500, "cut to fit: {}", condition.len());
}
