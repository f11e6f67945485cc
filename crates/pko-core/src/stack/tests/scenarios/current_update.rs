//! The Update that the status calls current, of revision `3`.

use super::*;

/// The result that is written, as JSON.
fn last_update(fixture: &StackFixture) -> Value {
    serde_json::to_value(&fixture.decide().status().unwrap().last_update).unwrap()
}

fn failed(message: &str) -> Value {
    ended(true, json!({ "message": message }))
}

#[test]
fn scenarios_10_and_11_an_update_that_has_not_ended() {
    play([
        // Upstream waits forever for an Update that is gone, and so does its
        // Stack. Here it is forgotten, and the Stack goes on: what is needed still is made again,
        // under the same name.
        (
            10,
            "it does not exist",
            fixture().vanished(),
            &[
                PROCESSING,
                CREATE_UP,
                "event StackUpdateDetected: Initial stack update",
                IN_FIVE_MINUTES,
            ],
        ),
        (
            11,
            "it is under way",
            fixture().current(running()),
            &[PROCESSING, IN_FIVE_MINUTES],
        ),
    ]);
    let kept = fixture().current(running()).decide();
    let current = kept.status().unwrap().current_update.clone().unwrap();
    assert_eq!(current.name.as_deref(), Some("demo-2"), "11: and is kept");
}

#[test]
fn scenario_12_a_failure_is_recorded() {
    let fixture = fixture().current(failed("it broke"));
    let lines = fixture.decide().lines();
    assert!(lines.contains(&"release demo-2".to_owned()), "{lines:?}");
    let event = "event! StackUpdateFailure: Failed to update stack: it broke";
    assert!(lines.contains(&event.to_owned()), "{lines:?}");
    assert_eq!(fixture.decide().status().unwrap().current_update, None);
    assert_eq!(
        last_update(&fixture),
        json!({
            "generation": 3, "reconcileRequest": "", "name": "demo-2", "type": "up", "state": "failed",
            "message": "it broke", "lastAttemptedCommit": "3", "failures": 0,
            "lastResyncTime": "2023-11-14T22:13:20Z",
        })
    );
}

/// Upstream does no more than that with a conflict; here one that is named as such does not count
/// (see `retries`).
#[test]
fn scenarios_13_and_14_the_message_of_a_failure_is_kept() {
    for (number, message) in [
        (13, "the stack is locked by 1 lock(s)"),
        (14, "something went wrong"),
    ] {
        let fixture = fixture().current(failed(message));
        assert_eq!(last_update(&fixture)["message"], message, "{number}");
    }
}

#[test]
fn scenarios_15_16_18_and_19_failures_are_counted() {
    let twice = |generation: i64| {
        fixture()
            .failed(2, 60)
            .status(json!({ "lastUpdate": { "generation": generation } }))
    };
    let fine = || ended(false, json!({}));
    for (number, sentence, fixture, failures) in [
        (
            15,
            "two, and another of the same spec",
            twice(3).current(failed("no")),
            json!(3),
        ),
        (
            16,
            "two of another spec",
            twice(2).current(failed("no")),
            json!(0),
        ),
        (
            18,
            "two, and a success of the same spec",
            twice(3).current(fine()),
            Value::Null,
        ),
        (
            19,
            "two of another spec, and a success",
            twice(2).current(fine()),
            Value::Null,
        ),
    ] {
        assert_eq!(
            last_update(&fixture)["failures"],
            failures,
            "{number}: {sentence}"
        );
    }
}

#[test]
fn scenario_17_a_success_is_recorded() {
    play([(
        17,
        "it succeeded",
        fixture().current(ended(false, json!({}))),
        &[
            "status Ready",
            "release demo-2",
            "event StackCreated: Successfully updated stack",
            "settled",
        ],
    )]);
    let fixture = fixture().current(ended(false, json!({})));
    assert_eq!(fixture.decide().status().unwrap().current_update, None);
    let last = last_update(&fixture);
    assert_eq!(last["state"], "succeeded");
    assert_eq!(last["lastAttemptedCommit"], "3");
    assert_eq!(last["lastSuccessfulCommit"], "3");
}

/// How a Secret becomes these outputs is tested where it is read: `pko_kube::outputs`.
#[test]
fn scenario_20_outputs_are_copied() {
    let outputs = StackOutputs::from([
        ("plain".to_owned(), json!("value")),
        ("hidden".to_owned(), json!("[secret]")),
    ]);
    let mut fixture = fixture().current(ended(false, json!({ "outputs": "demo-2-stack-outputs" })));
    fixture.outputs = Some(outputs.clone());
    assert_eq!(fixture.decide().status().unwrap().outputs, Some(outputs));
}
