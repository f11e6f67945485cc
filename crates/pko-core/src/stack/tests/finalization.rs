//! What a deletion does not depend on, and when it needs a destroy.

use super::*;

fn awaiting_destroy() -> StackFixture {
    fixture()
        .spec(json!({ "destroyOnFinalize": true }))
        .deleting()
}

fn is_released(fixture: &StackFixture) -> bool {
    fixture
        .decide()
        .plan
        .effects
        .contains(&StackEffect::RemoveFinalizer)
}

#[test]
fn preview_stack_delete_destroys_earlier_resources() {
    let preview = || awaiting_destroy().spec(json!({ "preview": true }));
    let previewed = json!({ "generation": 2, "type": "preview" });
    for (sentence, fixture, destroys) in [
        (
            "never applied",
            preview()
                .last(previewed.clone())
                .status(json!({ "applied": false })),
            false,
        ),
        (
            "applied once",
            preview()
                .last(previewed.clone())
                .status(json!({ "applied": true })),
            true,
        ),
        (
            "upstream's, without a trace",
            preview().last(previewed.clone()),
            false,
        ),
        (
            "upstream's, with outputs",
            preview()
                .last(previewed)
                .status(json!({ "outputs": { "a": 1 } })),
            true,
        ),
        (
            "upstream's, an update was the last",
            preview().last(json!({ "generation": 2, "type": "up" })),
            true,
        ),
        ("nothing ever ran", preview(), false),
    ] {
        assert_eq!(!is_released(&fixture), destroys, "{sentence}");
        if destroys {
            assert_eq!(fixture.decide().lines()[2], CREATE_DESTROY, "{sentence}");
        }
    }
}

#[test]
fn applied_update_is_remembered_until_destroy() {
    let applied = |fixture: StackFixture| fixture.decide().status().unwrap().applied;
    assert_eq!(applied(fixture()), Some(true), "an up starts");
    assert_eq!(
        applied(fixture().spec(json!({ "preview": true }))),
        Some(false)
    );
    assert_eq!(
        applied(
            fixture()
                .last(json!({ "generation": 2 }))
                .spec(json!({ "preview": true }))
        ),
        None,
        "unknown for a Stack that was taken over"
    );
    let destroyed = json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "destroy" },
        "status": { "conditions": [condition("Complete", "True", "Updated", "")] },
    });
    let gone = awaiting_destroy()
        .status(json!({ "applied": true }))
        .current(destroyed);
    assert_eq!(applied(gone), Some(false));
}

#[test]
fn never_applied_stack_delete_has_deadline() {
    let waiting = |deleted: i64, applied: bool| {
        awaiting_destroy()
            .with(json!({ "metadata": { "deletionTimestamp": ago(deleted) } }))
            .workspace(json!({ "status": { "conditions": [] } }))
            .status(json!({ "applied": applied }))
    };
    assert!(!is_released(&waiting(60, false)));
    assert!(is_released(&waiting(301, false)));
    assert!(!is_released(&waiting(9_999, true)), "something may be left");

    let message = "failed to fetch the program: the Workspace has no source";
    let ready = condition("Ready", "False", "WaitingForReplicas", message);
    let with_problem = |deleted: i64, applied: bool| {
        let outcome = json!({ "status": { "conditions": [ready.clone()] } });
        waiting(deleted, applied).workspace(outcome)
    };
    assert!(!is_released(&with_problem(60, false)), "it may still come");
    assert!(
        is_released(&with_problem(61, false)),
        "it reports a problem"
    );
    assert!(
        !is_released(&with_problem(9_999, true)),
        "something may be left"
    );
}

#[test]
fn failing_destroy_of_nothing_is_abandoned() {
    let failed = |failures, applied: Value| {
        awaiting_destroy()
            .failed(failures, 0)
            .last(json!({ "state": "failed", "type": "destroy", "lastResyncTime": ago(0) }))
            .status(json!({ "applied": applied }))
    };
    assert!(!is_released(&failed(2, json!(false))));
    assert!(is_released(&failed(3, json!(false))));
    assert!(!is_released(&failed(99, json!(true))));
    assert!(
        !is_released(&failed(99, json!(null))),
        "unknown for a Stack that was taken over"
    );
}

/// 102: upstream's users know what to do then.
#[test]
fn terminating_namespace_gets_no_workspace() {
    let ends = |fixture: StackFixture| fixture.last(json!({ "generation": 2 })).decide().lines();
    let workspace = ends(awaiting_destroy().workspace_refused(Refusal::NamespaceTerminating));
    let expected = "status Stalled NamespaceTerminating: namespace \"shop\" is terminating: a workspace cannot be created in \
        it to run destroy, so the stack's resources will NOT be deleted and need manual cleanup (see the Pulumi backend); \
        then release the stack with kubectl patch stack demo -n shop --type=merge -p '{\"metadata\":{\"finalizers\":[]}}'";
    assert_eq!(workspace, ["workspace", expected, "again in 30s"]);
    let update = ends(awaiting_destroy().update_refused(Refusal::NamespaceTerminating));
    assert_eq!(update[3..], [expected, "again in 30s"], "nor an Update");
    let linked = awaiting_destroy()
        .workspace_refused(Refusal::NamespaceTerminating)
        .last(json!({ "generation": 2, "permalink": "https://app.pulumi.com/x" }));
    assert!(linked.decide().lines()[1].contains("(see https://app.pulumi.com/x)"));
}

#[test]
fn foreground_delete_creates_unowned_objects() {
    let foreground = || {
        awaiting_destroy().with(json!({ "metadata": {
            "finalizers": ["finalizer.stack.pulumi.com", "foregroundDeletion"],
        } }))
    };
    let applied = |outcome: &StackOutcome| {
        let workspace = outcome.requests.iter().find_map(|request| match request {
            StackStep::Write(StackWrite::ApplyWorkspace(workspace, _)) => Some(workspace.clone()),
            _ => None,
        });
        workspace.unwrap().metadata
    };
    let mark = |uid: &str| Some([("auto.pulumi.com/destroys".to_owned(), uid.to_owned())].into());
    let metadata = applied(&foreground().last(json!({ "generation": 2 })).decide());
    assert_eq!(
        metadata.owner_references, None,
        "the garbage collector would take it away"
    );
    assert_eq!(
        metadata.annotations,
        mark("stack-uid"),
        "so it names its Stack"
    );
    let background = applied(&awaiting_destroy().last(json!({ "generation": 2 })).decide());
    assert!(background.owner_references.is_some());
    assert_eq!(background.annotations, None);
    let template = json!({ "metadata": { "annotations": { "auto.pulumi.com/destroys": "mine" } } });
    let claimed = foreground().last(json!({ "generation": 2 }));
    let claimed = claimed.with(json!({ "spec": { "workspaceTemplate": template } }));
    assert_eq!(applied(&claimed.decide()).annotations, mark("stack-uid"));

    let destroyed = foreground().last(json!({ "type": "destroy" }));
    assert_eq!(
        destroyed.decide().lines(),
        [
            "in-sync",
            "status Ready",
            "release demo-1",
            "delete workspace",
            "remove finalizer",
            "settled",
        ]
    );
}

#[test]
fn destroy_removes_stack_from_backend_if_requested() {
    let removes = |fixture: StackFixture| fixture.decide().created().spec.remove;
    let awaiting_destroy = || awaiting_destroy().last(json!({ "generation": 2 }));
    assert_eq!(removes(awaiting_destroy()), None);
    assert_eq!(
        removes(awaiting_destroy().spec(json!({ "removeStackOnDestroy": false }))),
        None
    );
    assert_eq!(
        removes(awaiting_destroy().spec(json!({ "removeStackOnDestroy": true }))),
        Some(true)
    );
    let not_deleting = fixture().spec(json!({ "removeStackOnDestroy": true }));
    assert_eq!(removes(not_deleting), None);
}

#[test]
fn result_is_recorded_when_reads_fail() {
    let ended = json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "up" },
        "status": { "conditions": [condition("Complete", "True", "Updated", "")] },
    });
    let fixture = fixture().current(ended);
    let mut observed = ObservedStack::new(serde_json::from_value(fixture.stack.clone()).unwrap());
    assert_eq!(observed.unsaved_effects(now()), [], "nothing is known yet");
    observed.observe(fixture.answer(&StackStep::Read(StackRead::CurrentUpdate("demo-2".into()))));
    let lines: Vec<String> = observed.unsaved_effects(now()).iter().map(line).collect();
    assert_eq!(
        lines,
        [
            PROCESSING,
            "release demo-2",
            "event StackCreated: Successfully updated stack",
        ]
    );
}

#[test]
fn update_held_by_crash_is_released() {
    let lines = |fixture: &StackFixture, held: &[&str]| {
        let mut observed =
            ObservedStack::new(serde_json::from_value(fixture.stack.clone()).unwrap());
        observed.unreleased = held.iter().map(|name| (*name).to_owned()).collect();
        fixture.decide_from(observed).lines()
    };
    let ready = fixture().last(json!({})).seen_before();
    assert_eq!(
        lines(&ready, &["demo-1"]),
        ["in-sync", "release demo-1", "settled"],
        "nothing else would"
    );
    let gone = fixture().deleting().last(json!({}));
    assert_eq!(
        lines(&gone, &["demo-1", "demo-0"]),
        [
            "release",
            "status Ready",
            "release demo-0",
            "release demo-1",
            "remove finalizer",
            "settled"
        ],
        "each once"
    );
}

/// The result of a later Update replaces the only record of upstream's update.
#[test]
fn update_applied_by_upstream_is_remembered() {
    for (operation, failed) in [("preview", "False"), ("destroy", "True")] {
        let ended = json!({
            "metadata": { "name": "demo-2" },
            "spec": { "type": operation },
            "status": { "conditions": [
                condition("Failed", failed, "R", ""), condition("Complete", "True", "Updated", ""),
            ] },
        });
        let stack = fixture()
            .spec(json!({ "destroyOnFinalize": true, "preview": true }))
            .deleting();
        let status = stack.last(json!({})).current(ended).decide();
        let status = serde_json::to_value(status.status().unwrap()).unwrap();
        let stack = json!({ "metadata": { "name": "demo" }, "spec": {
            "stack": "dev", "destroyOnFinalize": true, "preview": true,
        }, "status": status });
        let observed = ObservedStack::new(serde_json::from_value(stack).unwrap());
        assert!(observed.needs_destroy(), "{operation}");
    }
}
