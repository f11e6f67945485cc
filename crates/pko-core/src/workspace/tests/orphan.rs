//! Orphaned Workspaces.

use super::*;

/// A Workspace for the destroy of a Stack that is deleted in the foreground.
fn orphan_fixture() -> WorkspaceFixture {
    let mut fixture = fixture();
    let metadata = &mut fixture.workspace["metadata"];
    metadata["labels"] = json!({ "pulumi.com/stack-name": "demo" });
    metadata["annotations"] = json!({ "auto.pulumi.com/destroys": "stack-1" });
    fixture
}

impl WorkspaceFixture {
    fn awaited(mut self) -> Self {
        self.awaited = true;
        self
    }

    fn without(mut self, field: &str) -> Self {
        let metadata = self.workspace["metadata"].as_object_mut().unwrap();
        metadata.remove(field).unwrap();
        self
    }

    fn reads_its_stack(&self) -> bool {
        let requests = self.decide().requests;
        requests.contains(&WorkspaceStep::Read(WorkspaceRead::Awaited(
            "demo".to_owned(),
        )))
    }
}

#[test]
fn orphan_workspace_is_deleted_unless_its_stack_awaits_it() {
    check([
        (
            "gone",
            orphan_fixture(),
            &["orphan", "delete", "again in 60s"],
        ),
        (
            "whatever its pod does",
            orphan_fixture().runtime(RuntimeState::Idle),
            &["orphan", "delete", "again in 60s"],
        ),
        (
            "deleted already",
            orphan_fixture().deleting(),
            &[
                "deleting",
                "remove",
                "status Ready=False/Deleting Workspace is being deleted",
                "settled",
            ],
        ),
    ]);
    assert_eq!(
        orphan_fixture().decide().requests,
        [WorkspaceStep::Read(WorkspaceRead::Awaited(
            "demo".to_owned()
        ))],
        "no pod is made for it"
    );
}

#[test]
fn orphan_workspace_with_waiting_stack_is_requeued() {
    check([
        (
            "ready",
            orphan_fixture().awaited(),
            &["ready", READY, INITIALIZED, "again in 60s"],
        ),
        (
            "waits for less",
            orphan_fixture()
                .awaited()
                .runtime(RuntimeState::Starting("pulling".into())),
            &[
                "runtime",
                "status Ready=False/WaitingForReplicas pulling",
                "again in 1s",
            ],
        ),
        (
            "waits for nothing",
            orphan_fixture().awaited().runtime(RuntimeState::Idle),
            &[
                "runtime",
                "status Ready=True/Idle scaled to zero until the next run",
                "again in 60s",
            ],
        ),
        (
            "can't be made",
            orphan_fixture()
                .awaited()
                .runtime(RuntimeState::Invalid("no pod".into())),
            &[
                "runtime",
                "status Ready=False/InitializationFailed no pod Stalled=True/InitializationFailed no pod",
                "again in 60s",
            ],
        ),
    ]);
}

#[test]
fn workspace_without_our_marks_is_never_deleted() {
    let owner = |kind: &str| {
        let owner = json!({ "apiVersion": "v", "kind": kind, "name": "demo", "uid": "u" });
        let mut fixture = orphan_fixture();
        fixture.workspace["metadata"]["ownerReferences"] = json!([owner]);
        fixture
    };
    for (sentence, fixture) in [
        ("written by hand", fixture()),
        (
            "of upstream, whose Stack orphaned it",
            orphan_fixture().without("annotations"),
        ),
        (
            "without the name of a Stack",
            orphan_fixture().without("labels"),
        ),
        ("of a Stack", owner("Stack")),
        ("of somebody else", owner("Deployment")),
    ] {
        assert!(!fixture.reads_its_stack(), "{sentence}");
        let lines = fixture.decide().lines();
        assert_eq!(
            lines,
            ["ready", READY, INITIALIZED, "again in 600s"],
            "{sentence}"
        );
        let asleep = fixture.runtime(RuntimeState::Idle).decide();
        assert_eq!(asleep.plan.requeue, Requeue::Settled, "{sentence}");
    }
}

#[test]
fn stack_awaits_the_workspace_of_its_destroy() {
    let workspace = serde_json::from_value(orphan_fixture().workspace).unwrap();
    let awaited = |stack: Value| is_awaited(&workspace, &serde_json::from_value(stack).unwrap());
    let held = json!(["finalizer.stack.pulumi.com", "foregroundDeletion"]);
    let deleted = ago(60);
    for (sentence, expected, stack) in [
        (
            "it goes",
            true,
            json!({ "uid": "stack-1", "deletionTimestamp": deleted, "finalizers": held }),
        ),
        ("it does not go", true, json!({ "uid": "stack-1" })),
        (
            "created again",
            false,
            json!({ "uid": "stack-2", "finalizers": held }),
        ),
        (
            "let go by hand",
            false,
            json!({ "uid": "stack-1", "deletionTimestamp": deleted, "finalizers": ["foregroundDeletion"] }),
        ),
    ] {
        assert_eq!(awaited(stack), expected, "{sentence}");
    }
    let by_hand = serde_json::from_value(fixture().workspace).unwrap();
    let stack = serde_json::from_value(json!({ "uid": "stack-1" })).unwrap();
    assert!(!is_awaited(&by_hand, &stack));
}
