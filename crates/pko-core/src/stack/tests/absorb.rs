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

fn last_update(given: &Given) -> Value {
    serde_json::to_value(&given.told().status().unwrap().last_update).unwrap()
}

#[test]
fn an_update_that_runs_is_waited_for() {
    let wait: &[&str] = &["update-in-flight", PROCESSING, IN_FIVE_MINUTES];
    check([
        ("a running Update", given().current(running()), wait),
        (
            "an Update that nobody has looked at",
            given().current(json!({ "metadata": { "name": "demo-2" } })),
            wait,
        ),
        (
            "a running Update, and the spec was edited",
            given()
                .current(running())
                .with(json!({ "metadata": { "generation": 4 } })),
            wait,
        ),
        (
            "a running Update, and the Stack owes no destroy",
            given().current(running()).deleting(),
            wait,
        ),
        (
            "a running Update, seen before",
            given().current(running()).seen_before(),
            &["update-in-flight", IN_FIVE_MINUTES],
        ),
    ]);
    let told = given().current(running()).told();
    assert_eq!(told.questions(), ["update"]);
    assert!(told.status().unwrap().current_update.is_some());
}

#[test]
fn what_a_run_did_besides_is_told_with_its_success() {
    let mut update = ended(false, json!({}));
    let note = "removed the lock that run x had left behind";
    update["status"]["conditions"][2]["message"] = json!(note);
    let lines = given().current(update).told().lines();
    let expected = format!("event StackCreated: Successfully updated stack; {note}");
    assert!(lines.contains(&expected), "{lines:?}");
}

#[test]
fn a_success_makes_the_stack_ready() {
    let given = given().current(ended(
        false,
        json!({ "message": "fine", "permalink": "https://x/1" }),
    ));
    assert_eq!(
        given.told().lines(),
        [
            "in-sync",
            "status Ready",
            "release demo-2",
            "event StackCreated: Successfully updated stack",
            "settled",
        ]
    );
    assert_eq!(given.told().questions(), ["update", "source"]);
    assert_eq!(
        last_update(&given),
        json!({
            "generation": 3, "reconcileRequest": "", "name": "demo-2", "type": "up", "state": "succeeded",
            "lastAttemptedCommit": "3", "lastSuccessfulCommit": "3", "permalink": "https://x/1",
            "lastResyncTime": "2023-11-14T22:13:20Z",
        })
    );
    let told = given.told();
    let status = told.status().unwrap();
    assert_eq!(status.current_update, None);
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.observed_reconcile_request.as_deref(), Some(""));
}

#[test]
fn a_failure_is_recorded_and_tried_again() {
    let given = given()
        .last(json!({ "generation": 2, "lastSuccessfulCommit": "2", "permalink": "https://x/0" }))
        .current(ended(
            true,
            json!({ "message": "no such region", "permalink": "" }),
        ));
    assert_eq!(
        given.told().lines(),
        [
            "in-sync",
            "status Reconciling RetryingAfterFailure: 0 update failure(s); next attempt at 2023-11-14T22:13:30Z, or when the spec or source changes: no such region",
            "release demo-2",
            "event! StackUpdateFailure: Failed to update stack: no such region",
            "again in 10s",
        ]
    );
    assert_eq!(
        last_update(&given),
        json!({
            "generation": 3, "reconcileRequest": "", "name": "demo-2", "type": "up", "state": "failed",
            "message": "no such region", "failures": 0,
            "lastAttemptedCommit": "3", "lastSuccessfulCommit": "2",
            "lastResyncTime": "2023-11-14T22:13:20Z",
        })
    );
}

#[test]
fn an_update_that_vanished_is_made_again() {
    let told = given().vanished().told();
    assert_eq!(
        told.lines(),
        [
            "launch",
            PROCESSING,
            CREATE_UP,
            "event StackUpdateDetected: Initial stack update",
            IN_FIVE_MINUTES,
        ]
    );
    assert_eq!(told.status().unwrap().last_update, None, "nothing is known");

    let crashed = given().last(json!({ "generation": 2 }));
    let name = |given: &Given| given.told().created().metadata.name.clone();
    let after = crashed.told().status().unwrap().clone();
    let mut again = crashed.status(json!({}));
    again.stack["status"] = serde_json::to_value(after).unwrap();
    assert_eq!(
        again.told().created().metadata.name,
        name(&given().last(json!({ "generation": 2 }))),
        "under the same name"
    );

    let served = given().last(json!({})).vanished();
    assert_eq!(
        served.told().lines(),
        ["in-sync", "status Ready", "settled"],
        "if it is needed still"
    );
    let nameless = given()
        .last(json!({}))
        .status(json!({ "currentUpdate": { "generation": 3, "commit": "3" } }));
    assert_eq!(
        nameless.told().questions(),
        ["source"],
        "no name, no question"
    );
}

#[test]
fn an_update_that_ended_counts_even_while_it_is_deleted() {
    let mut update = ended(false, json!({ "observedGeneration": 1 }));
    merge(
        &mut update,
        json!({ "metadata": { "generation": 2, "deletionTimestamp": ago(1) } }),
    );
    assert_eq!(given().current(update).told().lines()[1], "status Ready");
}

#[test]
fn failures_are_counted_for_the_same_spec_request_and_revision() {
    let failures = |previous: Value| {
        let given = given().last(previous).current(ended(true, json!({})));
        last_update(&given)["failures"].clone()
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
    let first = given().current(ended(true, json!({})));
    assert_eq!(last_update(&first)["failures"], 0, "the first ever");
    let fine = given().failed(2, 60).current(ended(false, json!({})));
    assert_eq!(
        last_update(&fine)["failures"],
        Value::Null,
        "a success counts none"
    );
}

#[test]
fn a_stack_without_revisions_counts_failures_too() {
    let given = given()
        .with(json!({ "spec": { "programRef": null } }))
        .last(json!({ "state": "failed", "failures": 1, "lastAttemptedCommit": null }))
        .current(ended(true, json!({})))
        .status(json!({ "currentUpdate": { "commit": "" } }));
    assert_eq!(last_update(&given)["failures"], 2);
}

#[test]
fn outputs_are_asked_for_after_a_success_that_names_them() {
    let outputs = || {
        Outputs::from([
            ("password".to_owned(), json!("[secret]")),
            ("url".to_owned(), json!("x")),
        ])
    };
    let with = |failed, fields| {
        let mut given = given()
            .status(json!({ "outputs": { "old": 1 } }))
            .current(ended(failed, fields));
        given.outputs = Some(outputs());
        given.told()
    };
    let old = Some(Outputs::from([("old".to_owned(), json!(1))]));

    let told = with(false, json!({ "outputs": "demo-2-stack-outputs" }));
    assert!(
        told.asked
            .contains(&Question::Outputs("demo-2-stack-outputs".into()))
    );
    assert_eq!(
        told.status().unwrap().outputs,
        Some(outputs()),
        "the whole map is replaced"
    );

    for (sentence, told) in [
        (
            "a failure",
            with(true, json!({ "outputs": "demo-2-stack-outputs" })),
        ),
        ("none named", with(false, json!({}))),
        ("an empty name", with(false, json!({ "outputs": "" }))),
    ] {
        assert!(!told.questions().contains(&"outputs"), "{sentence}");
        assert_eq!(told.status().unwrap().outputs, old, "{sentence}");
    }
}

#[test]
fn outputs_that_are_gone_leave_the_old_ones() {
    let given = given()
        .status(json!({ "outputs": { "old": 1 } }))
        .current(ended(false, json!({ "outputs": "demo-2-stack-outputs" })));
    let told = given.told();
    assert_eq!(told.lines()[1], "status Ready");
    let old = Outputs::from([("old".to_owned(), json!(1))]);
    assert_eq!(told.status().unwrap().outputs, Some(old));
}

#[test]
fn the_project_is_kept_for_a_destroy_without_source() {
    let project = |failed, fields| {
        let given = given()
            .status(json!({ "projectInfo": { "name": "old", "runtime": "yaml" } }))
            .current(ended(failed, fields));
        given
            .told()
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
fn a_very_long_message_is_shortened() {
    let given = given().current(ended(true, json!({ "message": "x".repeat(2_000_000) })));
    let last = last_update(&given);
    assert!(last["message"].as_str().unwrap().len() < 40_000);
}

#[test]
fn a_result_is_kept_when_the_source_is_gone() {
    let given = given()
        .current(ended(false, json!({})))
        .source(unavailable("Program has no artifact"));
    assert_eq!(
        given.told().lines(),
        [
            "source",
            "status Stalled SourceUnavailable: Program has no artifact",
            "release demo-2",
            "event StackCreated: Successfully updated stack",
            "again in 30s",
        ]
    );
    assert_eq!(last_update(&given)["state"], "succeeded");
}

#[test]
fn a_result_and_the_next_update_go_together() {
    let given = given()
        .current(ended(false, json!({})))
        .with(json!({ "metadata": { "generation": 4 } }));
    assert_eq!(
        given.told().lines(),
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
