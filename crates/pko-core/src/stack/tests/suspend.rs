//! A Stack that is not to be touched for a while.

use super::*;

fn suspended() -> StackFixture {
    fixture().spec(json!({ "suspend": true }))
}

#[test]
fn suspended_stack_starts_nothing_and_keeps_result() {
    check([
        (
            "after a success",
            suspended().last(json!({ "generation": 2 })),
            &[
                "suspended",
                "status Ready Suspended: the stack is suspended: its last update succeeded; \
                 set spec.suspend to false to allow another",
                "settled",
            ],
        ),
        (
            "after a failure",
            suspended().failed(1, 3_600),
            &[
                "suspended",
                "status Stalled Suspended: the stack is suspended: its last update failed; \
                 set spec.suspend to false to retry",
                "settled",
            ],
        ),
        (
            "before the first",
            suspended(),
            &[
                "suspended",
                "status Stalled Suspended: the stack is suspended: its first update starts once spec.suspend is false",
                "settled",
            ],
        ),
        (
            "a request has to wait, too",
            suspended().last(json!({})).request("now").seen_before(),
            &["suspended", "settled"],
        ),
    ]);
    assert_eq!(
        suspended().decide().request_names(),
        [""; 0],
        "nothing is read"
    );
}

#[test]
fn suspended_stack_records_running_update() {
    let running = suspended().current(json!({ "metadata": { "name": "demo-2" } }));
    assert_eq!(running.decide().plan.rule, "update-in-flight");
    let ended = suspended().current(json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "up" },
        "status": { "conditions": [condition("Complete", "True", "Updated", "")] },
    }));
    let outcome = ended.decide();
    assert_eq!(outcome.plan.rule, "suspended");
    let last = outcome.status().unwrap().last_update.clone().unwrap();
    assert_eq!(last.name.as_deref(), Some("demo-2"));
}

#[test]
fn resumed_stack_continues() {
    let resumed = fixture()
        .spec(json!({ "suspend": false }))
        .last(json!({ "generation": 2 }));
    assert_eq!(resumed.decide().plan.rule, "launch");
}

#[test]
fn suspended_stack_can_be_deleted() {
    let free = suspended().deleting().last(json!({}));
    assert_eq!(free.decide().plan.rule, "release");
    let awaiting_destroy = suspended()
        .spec(json!({ "destroyOnFinalize": true }))
        .deleting()
        .last(json!({ "generation": 2 }));
    assert_eq!(awaiting_destroy.decide().lines()[2], CREATE_DESTROY);
}
