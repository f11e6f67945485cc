//! Cancellation of Updates.

use super::*;

const DELETED: &str = "the Update was deleted";
const ORPHANED: &str = "its Workspace was deleted";
const ANNOTATED: &str = "it has the annotation auto.pulumi.com/cancel";

#[test]
fn cancel_before_start_ends_the_update_at_once() {
    let canceled = |cause: &str| {
        let message = format!("canceled before the operation began: {cause}");
        aborted("Canceled", &message)
    };
    let (deleted, orphaned, annotated) =
        (canceled(DELETED), canceled(ORPHANED), canceled(ANNOTATED));
    check([
        (
            "new, and deleted",
            fixture().deleting(),
            &["cancel", &deleted, "settled"],
        ),
        (
            "new, and orphaned",
            fixture().orphaned(),
            &["cancel", &orphaned, "settled"],
        ),
        (
            "new, and annotated",
            fixture().annotated("true"),
            &["cancel", &annotated, "settled"],
        ),
        (
            "before it had an owner",
            fixture()
                .with(json!({ "metadata": { "ownerReferences": null } }))
                .annotated("true"),
            &["cancel", &annotated, "settled"],
        ),
        (
            "whatever the annotation says",
            fixture().annotated("please"),
            &["cancel", &annotated, "settled"],
        ),
        (
            "but not if it says no",
            fixture().annotated("false"),
            &["run", "watch run", "again in 60s"],
        ),
        (
            "or nothing",
            fixture().annotated(""),
            &["run", "watch run", "again in 60s"],
        ),
        (
            "while it waits for its turn",
            fixture().waiting("Queued").deleting(),
            &["cancel", &deleted, "settled"],
        ),
        (
            "while its agent can't be reached",
            fixture().waiting("TransientFailure").annotated("1"),
            &["cancel", &annotated, "settled"],
        ),
        (
            "with a time to live",
            fixture().deleting().lifetime("1h"),
            &["cancel", &deleted, "again in 3600s"],
        ),
    ]);
    assert_eq!(fixture().deleting().decide().requests, []);
    let class = fixture()
        .deleting()
        .decide()
        .status()
        .unwrap()
        .failure_class
        .clone();
    assert_eq!(class.as_deref(), Some("canceled"));
}

#[test]
fn cancel_of_a_running_update_watches_it_until_it_ends() {
    for (cause, fixture) in [
        (DELETED, fixture().progressing().deleting()),
        (ORPHANED, fixture().progressing().orphaned()),
        (ANNOTATED, fixture().progressing().annotated("true")),
    ] {
        let outcome = fixture.decide();
        assert_eq!(
            outcome.request_names(),
            ["workspace", "admission", "agent", "cancel"]
        );
        let status = format!("status {PROGRESSING}");
        assert_eq!(
            outcome.lines(),
            ["run", &status, "watch run", "again in 60s"]
        );
        let message = &outcome.status().unwrap().conditions[0].message;
        assert_eq!(
            *message,
            format!("the operation is being canceled: {cause}")
        );
    }
}

#[test]
fn canceled_run_has_the_result_that_the_agent_reports() {
    let annotated = || fixture().progressing().annotated("true");
    let outcome = RunOutcome {
        reason: Some("Canceled".into()),
        message: "up failed: error: update canceled".into(),
        permalink: Some("https://x/1".into()),
        ..RunOutcome::default()
    };
    let outcome = annotated().ended(outcome).decide();
    let status = format!(
        "status Progressing=False/Complete Failed=True/Canceled Complete=True/Updated \
         canceled: {ANNOTATED}\nup failed: error: update canceled"
    );
    assert_eq!(
        outcome.lines(),
        ["run", &status, "acknowledge", FAILED, "settled"]
    );
    assert_eq!(
        outcome.status().unwrap().permalink.as_deref(),
        Some("https://x/1")
    );

    let too_late = annotated().ended(succeeded()).decide().lines();
    let status =
        "status Progressing=False/Complete Failed=False/UpdateSucceeded Complete=True/Updated";
    assert_eq!(too_late[1], status);

    let message = format!("canceled before the operation began: {ANNOTATED}");
    let never_begun = annotated()
        .run(Ok(RunProgress::NotStarted))
        .decide()
        .lines();
    assert_eq!(
        never_begun,
        ["run", &aborted("Canceled", &message), "settled"]
    );
}

#[test]
fn canceled_update_with_lost_run_names_the_cause() {
    let gone = "canceled: its Workspace was deleted; the Workspace is gone, and the run with it; \
                completed changes are in the stack's state";
    let replaced = "canceled: the Update was deleted; the workspace's pod was replaced while the operation ran; \
                    completed changes are in the stack's state";
    let (gone, replaced) = (aborted("Canceled", gone), aborted("Canceled", replaced));
    check([
        (
            "with its Workspace",
            fixture().progressing().orphaned().workspace(None),
            &["await-workspace", &gone, "settled"],
        ),
        (
            "with its pod",
            fixture().progressing().deleting().replaced(),
            &["agent", &replaced, "settled"],
        ),
        (
            "not while the agent only does not answer",
            fixture().progressing().deleting().unreachable(Some(HERE)),
            &["agent", unreached(), "again in 5s"],
        ),
    ]);
}
