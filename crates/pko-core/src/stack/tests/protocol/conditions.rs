//! Three shapes, and each reason with the words that it begins with.

use super::*;
use StackReason::{
    NamespaceTerminating, PrerequisiteNotSatisfied, PreviewFailed, PulumiVersionTooLow,
    RetryingAfterFailure, SourceUnavailable, SpecInvalid, StackProcessing, Suspended,
    UpdateConflict, UpdateFailed, WorkspaceFailed,
};

/// The conditions that are last written, whole.
fn conditions(fixture: &StackFixture) -> Value {
    let outcome = fixture.decide();
    let status = outcome
        .status()
        .cloned()
        .or_else(|| published(&outcome))
        .unwrap();
    let mut conditions = serde_json::to_value(status.conditions).unwrap();
    for condition in conditions.as_array_mut().unwrap() {
        condition
            .as_object_mut()
            .unwrap()
            .remove("lastTransitionTime");
    }
    conditions
}

/// The status that was published with the question for the Workspace.
fn published(outcome: &StackOutcome) -> Option<StackStatus> {
    outcome.requests.iter().find_map(|request| match request {
        StackStep::Write(StackWrite::ApplyWorkspace(_, status)) => Some(status.as_ref().clone()),
        _ => None,
    })
}

fn ready(status: &str, reason: &str, message: &str) -> Value {
    json!({ "type": "Ready", "status": status, "reason": reason, "message": message })
}

#[test]
fn stack_conditions_are_exclusive() {
    let before = json!({ "conditions": [
        condition("Ready", "False", "NotReadyStalled", ""), condition("Stalled", "True", "SpecInvalid", "old"),
        condition("Reconciling", "True", "StackProcessing", "old"),
    ] });
    assert_eq!(
        conditions(&fixture().last(json!({})).status(before.clone())),
        json!([ready(
            "True",
            "ProcessingCompleted",
            "the stack has been processed and is up to date"
        )]),
        "nothing of before is left"
    );
    let reconciling = json!([
        ready("False", "NotReadyInProgress", "reconciliation is in progress"),
        { "type": "Reconciling", "status": "True", "reason": "StackProcessing", "message": "stack is being processed" },
    ]);
    for before in [json!({}), before.clone()] {
        let fixture = fixture().current(running()).status(before);
        assert_eq!(conditions(&fixture), reconciling);
    }
    let stalled = json!([
        ready("False", "NotReadyStalled", "reconciliation is stalled"),
        { "type": "Stalled", "status": "True", "reason": "SourceUnavailable", "message": "Program has no artifact" },
    ]);
    for before in [json!({}), before] {
        let fixture = fixture()
            .source(unavailable("Program has no artifact"))
            .status(before);
        assert_eq!(conditions(&fixture), stalled);
    }
}

#[test]
fn transition_time_follows_status_only() {
    let outcome = fixture()
        .failed(1, 0)
        .status(json!({ "conditions": [
            condition("Ready", "True", "ProcessingCompleted", ""), condition("Reconciling", "True", "StackProcessing", ""),
        ] }))
        .decide();
    let conditions = &outcome.status().unwrap().conditions;
    let time = |kind| {
        find(conditions, kind)
            .unwrap()
            .last_transition_time
            .0
            .to_string()
    };
    assert_eq!(time(Ready), now().to_string(), "it was ready, and is not");
    assert_eq!(time(Reconciling), ago(1_000), "only its words changed");
}

/// A reason, the words that its message begins with, and who has it. Upstream's words end there,
/// and ours go on where there is more to say: what comes next, and what went wrong.
fn rows() -> Vec<(StackReason, &'static str, StackFixture)> {
    vec![
        (
            StackProcessing,
            "Reconciling: waiting for workspace readiness",
            unready("Installing", false),
        ),
        (
            StackProcessing,
            "Reconciling: stack is being processed",
            fixture().current(running()),
        ),
        (
            StackProcessing,
            "Reconciling: stack is being processed",
            fixture(),
        ),
        (
            RetryingAfterFailure,
            "Reconciling: 2 update failure(s)",
            failed_just_now("up", 2, None),
        ),
        (
            RetryingAfterFailure,
            "Reconciling: 1 update failure(s)",
            failed_just_now("destroy", 1, None),
        ),
        (
            PreviewFailed,
            "Reconciling: preview failed (1 attempt(s))",
            failed_just_now("preview", 1, None),
        ),
        (
            PrerequisiteNotSatisfied,
            "Reconciling: unable to fetch prerequisite \"base\": stacks.pulumi.com \"base\" not found",
            waiting_for_base(),
        ),
        (
            PrerequisiteNotSatisfied,
            "Reconciling: prerequisite not satisfied for \"base\": prerequisite has not run to completion",
            waiting_for_base().neighbour("base", json!({})),
        ),
        (
            SpecInvalid,
            "Stalled: missing \"commit\" or \"branch\"",
            invalid_source(),
        ),
        (
            SpecInvalid,
            "Stalled: ref type \"Env\" is deprecated",
            fixture().spec(json!({ "envRefs": { "A": { "type": "Env" } } })),
        ),
        (
            SpecInvalid,
            "Stalled: cross-namespace refs are not allowed",
            fixture().spec(json!({ "secretsRef": { "a": {
                "type": "Secret", "secret": { "namespace": "other", "name": "s", "key": "k" },
            } } })),
        ),
        (
            SourceUnavailable,
            "Stalled: Flux source has no artifact",
            fixture().source(unavailable("Flux source has no artifact")),
        ),
        (
            WorkspaceFailed,
            "Stalled: InstallationFailed: no network",
            unready("InstallationFailed", true),
        ),
        (
            PulumiVersionTooLow,
            "Stalled: IncompatibleConfiguration: no network",
            unready("IncompatibleConfiguration", true),
        ),
        // Upstream's: "… times; not retrying until the spec or source changes". Here it is retried
        // on, as its documents promise.
        (
            UpdateFailed,
            "Stalled: up failed 3 times; ",
            failed_just_now("up", 3, None),
        ),
        (
            UpdateFailed,
            "Stalled: preview failed 3 times; ",
            failed_just_now("preview", 3, None),
        ),
        (
            NamespaceTerminating,
            "Stalled: namespace \"shop\" is terminating",
            awaiting_destroy().workspace_refused(Refusal::NamespaceTerminating),
        ),
        // Upstream has the reason and never sets it.
        (
            UpdateConflict,
            "Stalled: another update holds the stack",
            failed_just_now("up", 0, Some("conflict")),
        ),
        // Ours.
        (
            Suspended,
            "Stalled: the stack is suspended",
            fixture().spec(json!({ "suspend": true })),
        ),
    ]
}

#[test]
fn reason_messages_begin_as_upstreams() {
    for (reason, expected, fixture) in rows() {
        let conditions = conditions(&fixture);
        let [ready, why] = conditions.as_array().unwrap().as_slice() else {
            panic!("{reason}: {conditions}")
        };
        assert_eq!(ready["status"], "False", "{reason}");
        assert_eq!(why["reason"], reason.as_str(), "{conditions}");
        let (kind, message) = (why["type"].as_str(), why["message"].as_str());
        let shown = format!("{}: {}", kind.unwrap(), message.unwrap());
        assert!(shown.starts_with(expected), "{reason}: {shown}");
    }
}

#[test]
fn reasons_have_table_rows() {
    let shapes = [
        StackReason::ProcessingCompleted,
        StackReason::NotReadyInProgress,
        StackReason::NotReadyStalled,
    ];
    let rows = rows();
    for reason in StackReason::ALL {
        let known = rows.iter().any(|(other, ..)| other == reason);
        assert!(known || shapes.contains(reason), "{reason}");
    }
}

#[test]
fn second_reconcile_writes_nothing() {
    for (reason, expected, fixture) in rows() {
        let mut again = fixture.seen_before();
        // An Update that was just made runs now.
        again.update = Some(running());
        let lines = again.decide().lines();
        assert_eq!(lines.len(), 2, "{reason}: {expected}: {lines:?}");
    }
}
