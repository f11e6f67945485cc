//! An Update before its run starts, and after it is complete.

use super::*;
use crate::run_queue::{QueuePosition, QueueWait, WaitReason};

#[test]
fn complete_update_stays_for_its_ttl() {
    let kept: &[&str] = &["expire", "settled"];
    check([
        ("without one it stays for ever", fixture().complete(), kept),
        (
            "it has some left",
            fixture().complete().lifetime("1h"),
            &["expire", "again in 2600s"],
        ),
        (
            "it is over",
            fixture().complete().lifetime("1000s"),
            &[
                "expire",
                "delete",
                "event UpdateExpired: ttl expired and was deleted",
                "settled",
            ],
        ),
        (
            "it is none",
            fixture().complete().lifetime("-1h"),
            &[
                "expire",
                "delete",
                "event UpdateExpired: ttl expired and was deleted",
                "settled",
            ],
        ),
        (
            "it is being deleted already",
            fixture().complete().lifetime("1000s").deleting(),
            kept,
        ),
        ("it lost its owner", fixture().complete().orphaned(), kept),
        (
            "an operation that there is not",
            fixture()
                .complete()
                .with(json!({ "spec": { "type": "odd" } })),
            kept,
        ),
    ]);
    assert_eq!(fixture().complete().decide().requests, []);
}

#[test]
fn update_without_owner_is_adopted() {
    let alone =
        |fixture: UpdateFixture| fixture.with(json!({ "metadata": { "ownerReferences": null } }));
    let not_found = waiting("WorkspaceNotFound");
    let canceled = "canceled before the operation began: the Update was deleted";
    let canceled = aborted("Canceled", canceled);
    check([
        (
            "new",
            alone(fixture()),
            &["adopt", "adopted by Workspace demo", "again in 30s"],
        ),
        (
            "before there is a Workspace",
            alone(fixture()).workspace(None),
            &["adopt", &not_found, "again in 30s"],
        ),
        (
            "once there is one",
            alone(fixture().waiting("WorkspaceNotFound")),
            &["adopt", "adopted by Workspace demo", "again in 30s"],
        ),
        (
            "one that is being deleted",
            alone(fixture()).deleting(),
            &["cancel", &canceled, "settled"],
        ),
    ]);
}

#[test]
fn unknown_operation_fails_by_name() {
    let unknown = aborted(
        "UpdateFailed",
        "spec.type: \"import\" is not supported; use preview, up, refresh or destroy",
    );
    let missing = aborted(
        "UpdateFailed",
        "spec.type is required: use preview, up, refresh or destroy",
    );
    check([
        (
            "unknown",
            fixture().with(json!({ "spec": { "type": "import" } })),
            &["unknown-operation", &unknown, FAILED, "settled"],
        ),
        (
            "missing",
            fixture()
                .with(json!({ "spec": { "type": null } }))
                .lifetime("1h"),
            &["unknown-operation", &missing, FAILED, "again in 3600s"],
        ),
    ]);
}

#[test]
fn update_waits_for_its_workspace() {
    let not_found = waiting("WorkspaceNotFound");
    let not_ready = waiting("WorkspaceNotReady");
    let gone =
        "the Workspace is gone, and the run with it; completed changes are in the stack's state";
    let gone = aborted("Aborted", gone);
    check([
        ("missing", fixture().workspace(None), &["await-workspace", &not_found, "again in 30s"]),
        (
            "missing, and told before",
            fixture().workspace(None).waiting("WorkspaceNotFound"),
            &["await-workspace", "again in 30s"],
        ),
        ("not ready", fixture().workspace_not_ready(), &["await-workspace", &not_ready, "again in 30s"]),
        (
            "ready for another spec",
            fixture().workspace(Some(json!({
                "metadata": { "name": "demo", "generation": 2 },
                "status": { "observedGeneration": 1, "conditions": [condition("Ready", "True", "Succeeded")] },
            }))),
            &["await-workspace", &not_ready, "again in 30s"],
        ),
        (
            "not ready any more, after the agent could not be reached",
            fixture().workspace_not_ready().waiting("TransientFailure"),
            &["await-workspace", &not_ready, "again in 30s"],
        ),
        (
            "not ready any more, while the run goes on",
            fixture().workspace_not_ready().progressing(),
            &["run", "watch run", "again in 60s"],
        ),
        (
            "ready, in a pod of before",
            fixture().workspace_ready("Outdated"),
            &["await-workspace", &not_ready, "again in 30s"],
        ),
        (
            "ready, without a pod",
            fixture().workspace_ready("Idle"),
            &["await-workspace", &not_ready, "again in 30s"],
        ),
        (
            "a destroy, ready, without a pod",
            fixture().destroying().workspace_ready("Idle"),
            &["await-workspace", &not_ready, "again in 30s"],
        ),
        (
            "in a pod of before, while the run goes on",
            fixture().workspace_ready("Outdated").progressing(),
            &["run", "watch run", "again in 60s"],
        ),
        (
            "not ready any more, and the agent does not answer",
            fixture().workspace_not_ready().progressing().unreachable(None),
            &["agent", unreached(), "again in 5s"],
        ),
        (
            "gone, and the run with it",
            fixture().workspace(None).progressing(),
            &["await-workspace", &gone, FAILED, "settled"],
        ),
    ]);
}

/// Objects that a new pod needs may be deleted together with the Stack.
#[test]
fn destroy_starts_in_an_outdated_pod() {
    let outcome = fixture().destroying().workspace_ready("Outdated").decide();
    assert_eq!(outcome.plan.rule, "run");
}

#[test]
fn run_waits_for_admission() {
    let held = |position| {
        let reason = WaitReason::Cluster(2);
        UpdateFixture {
            turn: Admission::Queued(QueueWait { position, reason }),
            ..fixture()
        }
    };
    let outcome = held(QueuePosition::Near).decide();
    let condition = &outcome.status().unwrap().conditions[0];
    assert_eq!(
        (&*condition.reason, &*condition.status),
        ("Queued", "False")
    );
    assert_eq!(
        condition.message,
        "waiting for its turn: 2 runs are under way in the cluster, which is the limit (--max-runs); \
         fewer than 10 runs are before it"
    );
    assert_eq!(
        outcome.plan.requeue,
        Requeue::after(std::time::Duration::from_secs(30))
    );
    assert_eq!(
        held(QueuePosition::Far).decide().plan.requeue,
        Requeue::after(std::time::Duration::from_mins(5))
    );
    assert_eq!(outcome.request_names(), ["workspace", "admission"]);
    let begun = |fixture: &UpdateFixture| {
        let requests = fixture.decide().requests;
        requests.into_iter().find_map(|request| match request {
            UpdateStep::Write(UpdateWrite::Admit(request)) => Some(request.has_begun),
            _ => None,
        })
    };
    assert_eq!(begun(&fixture()), Some(false));
    assert_eq!(begun(&fixture().progressing()), Some(true));
    assert_eq!(
        begun(&fixture().workspace_not_ready()),
        None,
        "it can't run anyway"
    );
}
