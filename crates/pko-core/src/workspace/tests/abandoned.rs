//! Who deletes a Workspace that belongs to nobody.

use super::*;

/// Made for the destroy of a Stack that is deleted in the foreground.
fn nobodys() -> WorkspaceFixture {
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

    fn asks_for_its_stack(&self) -> bool {
        let requests = self.decide().requests;
        requests.contains(&WorkspaceStep::Read(WorkspaceRead::Awaited(
            "demo".to_owned(),
        )))
    }
}

#[test]
fn a_workspace_of_nobody_goes_once_its_stack_does_not_wait_for_it() {
    check([
        ("gone", nobodys(), &["abandoned", "delete", "again in 60s"]),
        (
            "whatever its pod does",
            nobodys().place(RuntimeState::Idle),
            &["abandoned", "delete", "again in 60s"],
        ),
        (
            "deleted already",
            nobodys().deleting(),
            &[
                "deleting",
                "remove",
                "status Ready=False/Deleting Workspace is being deleted",
                "settled",
            ],
        ),
    ]);
    assert_eq!(
        nobodys().decide().requests,
        [WorkspaceStep::Read(WorkspaceRead::Awaited(
            "demo".to_owned()
        ))],
        "no pod is made for it"
    );
}

#[test]
fn a_workspace_whose_stack_waits_is_as_any_other_and_looked_at_again() {
    check([
        (
            "ready",
            nobodys().awaited(),
            &["ready", READY, INITIALIZED, "again in 60s"],
        ),
        (
            "waits for less",
            nobodys()
                .awaited()
                .place(RuntimeState::Starting("pulling".into())),
            &[
                "place",
                "status Ready=False/WaitingForReplicas pulling",
                "again in 1s",
            ],
        ),
        (
            "waits for nothing",
            nobodys().awaited().place(RuntimeState::Idle),
            &[
                "place",
                "status Ready=True/Idle without a pod until the next run needs one",
                "again in 60s",
            ],
        ),
        (
            "can't be made",
            nobodys()
                .awaited()
                .place(RuntimeState::Invalid("no pod".into())),
            &[
                "place",
                "status Ready=False/InitializationFailed no pod Stalled=True/InitializationFailed no pod",
                "again in 60s",
            ],
        ),
    ]);
}

#[test]
fn a_workspace_that_is_not_surely_ours_is_never_deleted() {
    let owner = |kind: &str| {
        let owner = json!({ "apiVersion": "v", "kind": kind, "name": "demo", "uid": "u" });
        let mut fixture = nobodys();
        fixture.workspace["metadata"]["ownerReferences"] = json!([owner]);
        fixture
    };
    for (sentence, fixture) in [
        ("written by hand", fixture()),
        (
            "of upstream, whose Stack orphaned it",
            nobodys().without("annotations"),
        ),
        ("without the name of a Stack", nobodys().without("labels")),
        ("of a Stack", owner("Stack")),
        ("of somebody else", owner("Deployment")),
    ] {
        assert!(!fixture.asks_for_its_stack(), "{sentence}");
        let lines = fixture.decide().lines();
        assert_eq!(
            lines,
            ["ready", READY, INITIALIZED, "again in 600s"],
            "{sentence}"
        );
        let asleep = fixture.place(RuntimeState::Idle).decide();
        assert_eq!(asleep.plan.requeue, Requeue::Settled, "{sentence}");
    }
}

#[test]
fn a_stack_waits_for_the_workspace_that_was_made_for_it_unless_it_was_let_go() {
    let workspace = serde_json::from_value(nobodys().workspace).unwrap();
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
            "made anew",
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
