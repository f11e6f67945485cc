//! Whether an update is needed: upstream's fourteen rows, of which the first that matches decides.

use super::*;

/// Why an update is started, or nothing if none is.
fn trigger(given: &Given) -> Option<String> {
    let lines = given.told().lines();
    let detected = lines
        .iter()
        .find_map(|line| line.strip_prefix("event StackUpdateDetected: "));
    detected.map(str::to_owned)
}

/// A Stack that is deleted, its last Update of this generation.
fn deleted() -> Given {
    given()
        .deleting()
        .spec(json!({ "destroyOnFinalize": true }))
}

fn resync() -> Value {
    json!({ "continueResyncOnCommitMatch": true })
}

fn new_commit() -> Source {
    revision("new")
}

#[test]
fn rows_1_to_3_whatever_the_last_result_was() {
    for (row, given, expected) in [
        (1, given(), "Initial stack update"),
        (1, deleted(), "Initial stack update"),
        (
            2,
            given().last(json!({ "generation": 2 })),
            "New stack generation: 3",
        ),
        (
            2,
            given()
                .failed(9, 0)
                .status(json!({ "lastUpdate": { "generation": 2 } })),
            "New stack generation: 3",
        ),
        (
            2,
            deleted().last(json!({ "generation": 2 })),
            "Stack marked for deletion",
        ),
        (
            3,
            given().last(json!({})).request("now \"please\""),
            r#"Sync request: "now \"please\"""#,
        ),
        (
            3,
            given().last(json!({ "reconcileRequest": "before" })),
            r#"Sync request: """#,
        ),
        (
            3,
            given().failed(9, 0).request("now"),
            r#"Sync request: "now""#,
        ),
        (
            3,
            deleted().last(json!({ "type": "destroy" })).request("now"),
            r#"Sync request: "now""#,
        ),
    ] {
        assert_eq!(trigger(&given).as_deref(), Some(expected), "row {row}");
    }
}

#[test]
fn rows_4_to_9_after_a_success() {
    let with_resync = |seconds| {
        given()
            .spec(resync())
            .last(json!({ "lastResyncTime": ago(seconds) }))
    };
    for (row, given, expected) in [
        (4, deleted().last(json!({ "type": "destroy" })), None),
        (
            4,
            deleted()
                .last(json!({ "type": "destroy" }))
                .source(Ok(new_commit())),
            None,
        ),
        (
            5,
            deleted().last(json!({ "type": "up" })),
            Some("Stack marked for deletion"),
        ),
        (
            6,
            given().last(json!({})).source(Ok(new_commit())),
            Some("New commit detected: \"new\""),
        ),
        (7, given().last(json!({})), None),
        (
            7,
            given()
                .spec(json!({ "resyncFrequencySeconds": 60 }))
                .last(json!({})),
            None,
        ),
        (8, with_resync(60), Some("Resync time elapsed: 1m0s")),
        (9, with_resync(59), None),
    ] {
        assert_eq!(trigger(&given).as_deref(), expected, "row {row}");
    }
}

#[test]
fn rows_10_to_14_after_a_failure() {
    let detected = Some("New commit detected: \"new\"");
    for (row, given, expected) in [
        (10, given().failed(0, 0).source(Ok(new_commit())), detected),
        (10, given().failed(9, 0).source(Ok(new_commit())), detected),
        (11, given().failed(3, 200), None),
        // Upstream never tries again from here; the wait is just longer with us.
        (
            11,
            given().failed(3, 270),
            Some("Backoff time elapsed: 4m30s"),
        ),
        (12, given().failed(0, 10), Some("Backoff time elapsed: 10s")),
        (
            12,
            given().failed(2, 90),
            Some("Backoff time elapsed: 1m30s"),
        ),
        (13, given().failed(2, 89), None),
        (14, given().last(json!({ "state": "odd" })), None),
    ] {
        assert_eq!(trigger(&given).as_deref(), expected, "row {row}");
    }
}
