//! The Workspace that an update needs, and the Update.

use super::*;

#[test]
fn scenarios_35_to_37_an_update_waits_for_its_workspace() {
    let none = fixture().workspace(json!({ "metadata": { "generation": 1 }, "status": null }));
    let edited = fixture().workspace(json!({ "metadata": { "generation": 3 } }));
    let unready = fixture().workspace(json!({
        "status": { "conditions": [condition("Ready", "False", "Initializing", "")] },
    }));
    for (number, sentence, fixture) in [
        (35, "there was none: it is made", none),
        (36, "it was ready for another spec", edited),
        (37, "it is not ready", unready),
    ] {
        let outcome = fixture.decide();
        assert_eq!(
            outcome.request_names(),
            ["source", "workspace"],
            "{number}: {sentence}"
        );
        assert_eq!(published(&outcome), WAITING, "{number}: {sentence}");
        // Upstream waits for the Workspace's event alone.
        assert_eq!(
            outcome.lines(),
            ["workspace", LOOK_AGAIN],
            "{number}: {sentence}"
        );
    }
}

#[test]
fn scenario_38_a_ready_workspace_gets_an_update() {
    let outcome = fixture().decide();
    assert_eq!(outcome.lines()[..3], ["launch", PROCESSING, CREATE_UP]);
    let update = outcome.created();
    let finalizers = update.metadata.finalizers.clone().unwrap();
    assert_eq!(finalizers, ["finalizer.stack.pulumi.com"]);
    let current = outcome.status().unwrap().current_update.clone().unwrap();
    assert_eq!(current.generation, Some(3));
    assert_eq!(current.name, update.metadata.name);
    assert_eq!(current.commit.as_deref(), Some("3"));
}

#[test]
fn scenarios_40_and_41_a_preview() {
    let preview = || fixture().spec(json!({ "preview": true, "destroyOnFinalize": true }));
    assert_eq!(preview().decide().lines()[2], "create preview", "40");
    // Upstream destroys nothing for a Stack that previews, even if it was applied before; see
    // `farewell`.
    play([(
        41,
        "it is deleted: there is nothing to destroy",
        preview()
            .deleting()
            .last(json!({ "generation": 2, "type": "preview" })),
        &[
            "status Ready",
            "release demo-1",
            REMOVE_FINALIZER,
            "settled",
        ],
    )]);
}
