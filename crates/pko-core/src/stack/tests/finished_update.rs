//! Folding a finished Update into the status.

use super::*;

/// An Update that ended, with this in its status.
fn ended(failed: bool, fields: Value) -> Value {
    let failed = if failed { "True" } else { "False" };
    let mut update = json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "up" },
        "status": { "conditions": [
            condition("Progressing", "False", "Complete", ""),
            condition("Failed", failed, "UpdateFailed", ""),
            condition("Complete", "True", "Updated", ""),
        ] },
    });
    merge(&mut update, json!({ "status": fields }));
    update
}

fn running() -> Value {
    let progressing = condition("Progressing", "True", "Progressing", "");
    json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "up" },
        "status": { "conditions": [progressing] },
    })
}

fn last_update(fixture: &StackFixture) -> Value {
    serde_json::to_value(&fixture.decide().status().unwrap().last_update).unwrap()
}

#[test]
fn running_update_is_awaited() {
    let wait: &[&str] = &["update-in-flight", PROCESSING, IN_FIVE_MINUTES];
    check([
        ("a running Update", fixture().current(running()), wait),
        (
            "an Update that was not reconciled yet",
            fixture().current(json!({ "metadata": { "name": "demo-2" } })),
            wait,
        ),
        (
            "a running Update, and the spec was edited",
            fixture()
                .current(running())
                .with(json!({ "metadata": { "generation": 4 } })),
            wait,
        ),
        (
            "a running Update, and no destroy is needed",
            fixture().current(running()).deleting(),
            wait,
        ),
        (
            "a running Update, seen before",
            fixture().current(running()).seen_before(),
            &["update-in-flight", IN_FIVE_MINUTES],
        ),
    ]);
    let outcome = fixture().current(running()).decide();
    assert_eq!(outcome.request_names(), ["update"]);
    assert!(outcome.status().unwrap().current_update.is_some());
}

#[test]
fn run_notes_are_reported_with_success() {
    let mut update = ended(false, json!({}));
    let note = "removed the lock that run x had left behind";
    update["status"]["conditions"][2]["message"] = json!(note);
    let lines = fixture().current(update).decide().lines();
    let expected = format!("event StackCreated: Successfully updated stack; {note}");
    assert!(lines.contains(&expected), "{lines:?}");
}

#[test]
fn successful_update_makes_stack_ready() {
    let fixture = fixture().current(ended(
        false,
        json!({ "message": "fine", "permalink": "https://x/1" }),
    ));
    assert_eq!(
        fixture.decide().lines(),
        [
            "in-sync",
            "status Ready",
            "release demo-2",
            "event StackCreated: Successfully updated stack",
            "settled",
        ]
    );
    assert_eq!(fixture.decide().request_names(), ["update", "source"]);
    assert_eq!(
        last_update(&fixture),
        json!({
            "generation": 3, "reconcileRequest": "", "name": "demo-2", "type": "up", "state": "succeeded",
            "lastAttemptedCommit": "3", "lastSuccessfulCommit": "3", "permalink": "https://x/1",
            "lastResyncTime": "2023-11-14T22:13:20Z",
        })
    );
    let outcome = fixture.decide();
    let status = outcome.status().unwrap();
    assert_eq!(status.current_update, None);
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.observed_reconcile_request.as_deref(), Some(""));
}

#[test]
fn failed_update_is_recorded_and_retried() {
    let fixture = fixture()
        .last(json!({ "generation": 2, "lastSuccessfulCommit": "2", "permalink": "https://x/0" }))
        .current(ended(
            true,
            json!({ "message": "no such region", "permalink": "" }),
        ));
    assert_eq!(
        fixture.decide().lines(),
        [
            "in-sync",
            "status Reconciling RetryingAfterFailure: 0 update failure(s); next attempt at 2023-11-14T22:13:30Z, or when the spec or source changes: no such region",
            "release demo-2",
            "event! StackUpdateFailure: Failed to update stack: no such region",
            "again in 10s",
        ]
    );
    assert_eq!(
        last_update(&fixture),
        json!({
            "generation": 3, "reconcileRequest": "", "name": "demo-2", "type": "up", "state": "failed",
            "message": "no such region", "failures": 0,
            "lastAttemptedCommit": "3", "lastSuccessfulCommit": "2",
            "lastResyncTime": "2023-11-14T22:13:20Z",
        })
    );
}

#[test]
fn vanished_update_is_created_again() {
    let outcome = fixture().vanished().decide();
    assert_eq!(
        outcome.lines(),
        [
            "launch",
            PROCESSING,
            CREATE_UP,
            "event StackUpdateDetected: Initial stack update",
            IN_FIVE_MINUTES,
        ]
    );
    assert_eq!(
        outcome.status().unwrap().last_update,
        None,
        "nothing is known"
    );

    let crashed = fixture().last(json!({ "generation": 2 }));
    let name = |fixture: &StackFixture| fixture.decide().created().metadata.name.clone();
    let after = crashed.decide().status().unwrap().clone();
    let mut again = crashed.status(json!({}));
    again.stack["status"] = serde_json::to_value(after).unwrap();
    assert_eq!(
        again.decide().created().metadata.name,
        name(&fixture().last(json!({ "generation": 2 }))),
        "under the same name"
    );

    let served = fixture().last(json!({})).vanished();
    assert_eq!(
        served.decide().lines(),
        ["in-sync", "status Ready", "settled"],
        "if it is needed still"
    );
    let nameless = fixture()
        .last(json!({}))
        .status(json!({ "currentUpdate": { "generation": 3, "commit": "3" } }));
    assert_eq!(
        nameless.decide().request_names(),
        ["source"],
        "no name, no question"
    );
}

#[test]
fn deleting_update_result_is_recorded() {
    let mut update = ended(false, json!({ "observedGeneration": 1 }));
    merge(
        &mut update,
        json!({ "metadata": { "generation": 2, "deletionTimestamp": ago(1) } }),
    );
    assert_eq!(
        fixture().current(update).decide().lines()[1],
        "status Ready"
    );
}

#[test]
fn failures_are_counted_for_the_same_spec_request_and_revision() {
    let failures = |previous: Value| {
        let fixture = fixture().last(previous).current(ended(true, json!({})));
        last_update(&fixture)["failures"].clone()
    };
    for (sentence, previous, expected) in [
        (
            "after two failures",
            json!({ "state": "failed", "failures": 2 }),
            3,
        ),
        (
            "after a failure that upstream counted as none",
            json!({ "state": "failed", "failures": null }),
            1,
        ),
        ("after a success", json!({}), 1),
        (
            "of another generation",
            json!({ "state": "failed", "failures": 2, "generation": 2 }),
            0,
        ),
        (
            "of another request",
            json!({ "state": "failed", "failures": 2, "reconcileRequest": "a" }),
            0,
        ),
        (
            "of another revision",
            json!({ "state": "failed", "failures": 2, "lastAttemptedCommit": "2" }),
            0,
        ),
        (
            "so often that it can't be counted",
            json!({ "state": "failed", "failures": i64::MAX }),
            i64::MAX,
        ),
    ] {
        assert_eq!(failures(previous), json!(expected), "{sentence}");
    }
    let first = fixture().current(ended(true, json!({})));
    assert_eq!(last_update(&first)["failures"], 0, "the first ever");
    let fine = fixture().failed(2, 60).current(ended(false, json!({})));
    assert_eq!(
        last_update(&fine)["failures"],
        Value::Null,
        "a success counts none"
    );
}

#[test]
fn stack_without_revisions_counts_failures() {
    let fixture = fixture()
        .with(json!({ "spec": { "programRef": null } }))
        .last(json!({ "state": "failed", "failures": 1, "lastAttemptedCommit": null }))
        .current(ended(true, json!({})))
        .status(json!({ "currentUpdate": { "commit": "" } }));
    assert_eq!(last_update(&fixture)["failures"], 2);
}

#[test]
fn outputs_are_asked_for_after_a_success_that_names_them() {
    let outputs = || {
        StackOutputs::from([
            ("password".to_owned(), json!("[secret]")),
            ("url".to_owned(), json!("x")),
        ])
    };
    let with = |failed, fields| {
        let mut fixture = fixture()
            .status(json!({ "outputs": { "old": 1 } }))
            .current(ended(failed, fields));
        fixture.outputs = Some(outputs());
        fixture.decide()
    };
    let old = Some(StackOutputs::from([("old".to_owned(), json!(1))]));

    let outcome = with(false, json!({ "outputs": "demo-2-stack-outputs" }));
    assert!(
        outcome
            .requests
            .contains(&StackStep::Read(StackRead::Outputs(
                "demo-2-stack-outputs".into()
            )))
    );
    assert_eq!(
        outcome.status().unwrap().outputs,
        Some(outputs()),
        "the whole map is replaced"
    );

    for (sentence, outcome) in [
        (
            "a failure",
            with(true, json!({ "outputs": "demo-2-stack-outputs" })),
        ),
        ("none named", with(false, json!({}))),
        ("an empty name", with(false, json!({ "outputs": "" }))),
    ] {
        assert!(!outcome.request_names().contains(&"outputs"), "{sentence}");
        assert_eq!(outcome.status().unwrap().outputs, old, "{sentence}");
    }
}

#[test]
fn outputs_that_are_left_out_are_a_remark_of_the_update() {
    let status = serde_json::from_value(json!({ "currentUpdate": { "name": "demo-2" } }));
    let mut observed = ObservedStack::new(pko_api::Stack {
        status: Some(status.unwrap()),
        ..pko_api::Stack::default()
    });
    observed.outputs = Fact::Known(ShownOutputs {
        values: StackOutputs::from([("small".to_owned(), json!(1))]),
        remark: Some("the status does not show the outputs \"deep\"".to_owned()),
    });
    let ended = serde_json::from_value(json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "up" },
        "status": {
            "outputs": "demo-2-stack-outputs",
            "conditions": [condition("Failed", "False", "R", ""), condition("Complete", "True", "Updated", "")],
        },
    }));
    observed.current_update = Fact::Known(Some(ended.unwrap()));
    let evaluation = super::super::finished_update::fold_finished_update(&observed, now()).unwrap();
    assert_eq!(json!(evaluation.status.outputs), json!({ "small": 1 }));
    let last = evaluation.status.last_update.unwrap();
    assert!(last.message.unwrap().contains("does not show the outputs"));
    let events = evaluation.finished.unwrap().events;
    assert!(
        events
            .iter()
            .any(|event| event.warning && event.message.contains("does not show"))
    );
}

#[test]
fn outputs_that_are_gone_leave_the_old_ones() {
    let fixture = fixture()
        .status(json!({ "outputs": { "old": 1 } }))
        .current(ended(false, json!({ "outputs": "demo-2-stack-outputs" })));
    let outcome = fixture.decide();
    assert_eq!(outcome.lines()[1], "status Ready");
    let old = StackOutputs::from([("old".to_owned(), json!(1))]);
    assert_eq!(outcome.status().unwrap().outputs, Some(old));
}

#[test]
fn project_info_is_kept_for_destroy() {
    let project = |failed, fields| {
        let fixture = fixture()
            .status(json!({ "projectInfo": { "name": "old", "runtime": "yaml" } }))
            .current(ended(failed, fields));
        fixture
            .decide()
            .status()
            .unwrap()
            .project_info
            .clone()
            .unwrap()
            .name
    };
    let new = json!({ "projectInfo": { "name": "new", "runtime": "nodejs" } });
    assert_eq!(project(false, new.clone()), "new");
    assert_eq!(project(false, json!({})), "old");
    assert_eq!(project(true, new), "old");
}

#[test]
fn long_update_message_is_shortened() {
    let fixture = fixture().current(ended(true, json!({ "message": "x".repeat(2_000_000) })));
    let last = last_update(&fixture);
    assert!(last["message"].as_str().unwrap().len() < 40_000);
}

#[test]
fn result_is_recorded_without_source() {
    let fixture = fixture()
        .current(ended(false, json!({})))
        .source(unavailable("Program has no artifact"));
    assert_eq!(
        fixture.decide().lines(),
        [
            "source",
            "status Stalled SourceUnavailable: Program has no artifact",
            "release demo-2",
            "event StackCreated: Successfully updated stack",
            "again in 30s",
        ]
    );
    assert_eq!(last_update(&fixture)["state"], "succeeded");
}

#[test]
fn result_and_next_update_share_a_write() {
    let fixture = fixture()
        .current(ended(false, json!({})))
        .with(json!({ "metadata": { "generation": 4 } }));
    assert_eq!(
        fixture.decide().lines(),
        [
            "launch",
            PROCESSING,
            CREATE_UP,
            "release demo-2",
            "event StackCreated: Successfully updated stack",
            "event StackUpdateDetected: New stack generation: 4",
            IN_FIVE_MINUTES,
        ]
    );
}
