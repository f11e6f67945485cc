//! Finalization: the Stack is deleted, which made a new generation, and we hold it.

use super::*;

fn deleted() -> StackFixture {
    fixture().deleting()
}

fn awaiting_destroy() -> StackFixture {
    deleted().spec(json!({ "destroyOnFinalize": true }))
}

/// What upstream's tests look at in a destroy that was started.
fn started(number: u16, fixture: &StackFixture, trigger: &str) {
    let outcome = fixture.decide();
    let lines = outcome.lines();
    assert_eq!(
        lines[..3],
        ["launch", PROCESSING, CREATE_DESTROY],
        "{number}"
    );
    let detected = format!("event StackUpdateDetected: {trigger}");
    assert!(lines.contains(&detected), "{number}: {lines:?}");
    assert!(
        !lines.contains(&REMOVE_FINALIZER.to_owned()),
        "{number}: its finalizer stays"
    );
    let update = outcome.created();
    let finalizers = update.metadata.finalizers.clone().unwrap();
    assert_eq!(finalizers, ["finalizer.stack.pulumi.com"], "{number}");
    assert_eq!(update.spec.stack_name.as_deref(), Some("dev"), "{number}");
    let current = outcome.status().unwrap().current_update.clone().unwrap();
    assert_eq!(current.generation, Some(3), "{number}");
    assert_eq!(current.name, update.metadata.name, "{number}");
    assert_eq!(current.commit.as_deref(), Some("3"), "{number}");
}

#[test]
fn scenarios_2_to_4_and_9_a_stack_goes_or_waits() {
    play([
        (
            2,
            "our finalizer is gone already: nothing is done",
            deleted().unheld(),
            &["settled"],
        ),
        // Upstream waits for the Update's event alone; we look again in case it was missed.
        (
            3,
            "an Update of the generation before still runs",
            deleted()
                .current(running())
                .status(json!({ "currentUpdate": { "generation": 2 } })),
            &[PROCESSING, IN_FIVE_MINUTES],
        ),
        (
            4,
            "no destroy is requested",
            deleted().last(json!({ "generation": 2 })),
            &[
                "status Ready",
                "release demo-1",
                REMOVE_FINALIZER,
                "settled",
            ],
        ),
        (
            9,
            "the destroy of this generation succeeded",
            awaiting_destroy().last(json!({ "type": "destroy" })),
            &[
                "status Ready",
                "release demo-1",
                "delete workspace",
                REMOVE_FINALIZER,
                "settled",
            ],
        ),
    ]);
}

#[test]
fn scenarios_5_to_7_a_destroy_is_started() {
    // Upstream destroys a Stack that never ran as well: something may be in its backend.
    started(5, &awaiting_destroy(), "Initial stack update");
    let applied = awaiting_destroy().last(json!({ "generation": 2 }));
    started(6, &applied, "Stack marked for deletion");
    let failed = awaiting_destroy()
        .failed(1, 3_600)
        .status(json!({ "lastUpdate": { "type": "destroy" } }));
    started(7, &failed, "Backoff time elapsed: 30s");
}
