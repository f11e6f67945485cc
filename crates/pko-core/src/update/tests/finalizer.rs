//! Removal of the finalizer without the Stack.

use super::*;

fn held() -> UpdateFixture {
    fixture()
        .with(json!({ "metadata": {
            "finalizers": ["finalizer.stack.pulumi.com"],
            "labels": { "pulumi.com/stack-name": "demo" },
        } }))
        .complete()
}

#[test]
fn update_finalizer_is_removed_unless_the_stack_awaits_it() {
    let unlabelled = json!({ "metadata": { "labels": null } });
    let free = json!({ "metadata": { "finalizers": ["other"] } });
    check([
        (
            "the Stack is gone, or has recorded it",
            held().deleting(),
            &["remove-finalizer", "remove finalizer", "settled"],
        ),
        (
            "the Stack has yet to record it",
            held().deleting().awaited(),
            &["remove-finalizer", "again in 60s"],
        ),
        ("it stays for a while", held(), &["expire", "settled"]),
        (
            "another's",
            held().deleting().with(free),
            &["expire", "settled"],
        ),
        (
            "no Stack's",
            held().deleting().with(unlabelled),
            &["expire", "settled"],
        ),
    ]);
    let running = held().deleting().progressing();
    assert!(!running.decide().request_names().contains(&"awaited"));
}

#[test]
fn deleted_update_is_requeued_soon_after_its_end() {
    let new = held().with(json!({ "status": null })).lifetime("24h");
    assert_eq!(
        new.deleting().decide().lines().last().unwrap(),
        "again in 60s"
    );
}

#[test]
fn stack_awaits_only_its_current_update() {
    let update = serde_json::from_value(held().update).unwrap();
    let awaits_as = |metadata: Value, status: Value| {
        let stack = json!({ "metadata": metadata, "spec": { "stack": "dev" }, "status": status });
        stack_awaits(&serde_json::from_value(stack).unwrap(), &update)
    };
    let stack_awaits = |status: Value| awaits_as(json!({}), status);
    assert!(stack_awaits(
        json!({ "currentUpdate": { "name": "demo-1" } })
    ));
    assert!(!stack_awaits(
        json!({ "currentUpdate": { "name": "demo-2" } })
    ));
    assert!(!stack_awaits(json!({ "lastUpdate": { "name": "demo-1" } })));
    assert!(!stack_awaits(json!(null)));
    let deleting = |finalizers: &[&str]| {
        let metadata = json!({ "deletionTimestamp": ago(5), "finalizers": finalizers });
        awaits_as(metadata, json!({ "currentUpdate": { "name": "demo-1" } }))
    };
    assert!(deleting(&["finalizer.stack.pulumi.com"]));
    assert!(!deleting(&["foregroundDeletion"]), "let go by hand");
}
