//! Whether an update is needed: upstream's fourteen rows, of which the first that matches decides.

use super::*;

/// Why an update is started, or nothing if none is.
fn trigger(fixture: &StackFixture) -> Option<String> {
    let lines = fixture.decide().lines();
    let detected = lines
        .iter()
        .find_map(|line| line.strip_prefix("event StackUpdateDetected: "));
    detected.map(str::to_owned)
}

/// A Stack that is deleted, its last Update of this generation.
fn deleted() -> StackFixture {
    fixture()
        .deleting()
        .spec(json!({ "destroyOnFinalize": true }))
}

fn resync() -> Value {
    json!({ "continueResyncOnCommitMatch": true })
}

fn new_commit() -> ProgramSource {
    revision("new")
}

#[test]
fn rows_1_to_3_whatever_the_last_result_was() {
    for (row, fixture, expected) in [
        (1, fixture(), "Initial stack update"),
        (1, deleted(), "Initial stack update"),
        (
            2,
            fixture().last(json!({ "generation": 2 })),
            "New stack generation: 3",
        ),
        (
            2,
            fixture()
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
            fixture().last(json!({})).request("now \"please\""),
            r#"Sync request: "now \"please\"""#,
        ),
        (
            3,
            fixture().last(json!({ "reconcileRequest": "before" })),
            r#"Sync request: """#,
        ),
        (
            3,
            fixture().failed(9, 0).request("now"),
            r#"Sync request: "now""#,
        ),
        (
            3,
            deleted().last(json!({ "type": "destroy" })).request("now"),
            r#"Sync request: "now""#,
        ),
    ] {
        assert_eq!(trigger(&fixture).as_deref(), Some(expected), "row {row}");
    }
}

#[test]
fn rows_4_to_9_after_a_success() {
    let with_resync = |seconds| {
        fixture()
            .spec(resync())
            .last(json!({ "lastResyncTime": ago(seconds) }))
    };
    for (row, fixture, expected) in [
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
            fixture().last(json!({})).source(Ok(new_commit())),
            Some("New commit detected: \"new\""),
        ),
        (7, fixture().last(json!({})), None),
        (
            7,
            fixture()
                .spec(json!({ "resyncFrequencySeconds": 60 }))
                .last(json!({})),
            None,
        ),
        (8, with_resync(60), Some("Resync time elapsed: 1m0s")),
        (9, with_resync(59), None),
    ] {
        assert_eq!(trigger(&fixture).as_deref(), expected, "row {row}");
    }
}

#[test]
fn rows_10_to_14_after_a_failure() {
    let detected = Some("New commit detected: \"new\"");
    for (row, fixture, expected) in [
        (
            10,
            fixture().failed(0, 0).source(Ok(new_commit())),
            detected,
        ),
        (
            10,
            fixture().failed(9, 0).source(Ok(new_commit())),
            detected,
        ),
        (11, fixture().failed(3, 200), None),
        // Upstream never tries again from here; the wait is just longer with us.
        (
            11,
            fixture().failed(3, 270),
            Some("Backoff time elapsed: 4m30s"),
        ),
        (
            12,
            fixture().failed(0, 10),
            Some("Backoff time elapsed: 10s"),
        ),
        (
            12,
            fixture().failed(2, 90),
            Some("Backoff time elapsed: 1m30s"),
        ),
        (13, fixture().failed(2, 89), None),
        (14, fixture().last(json!({ "state": "odd" })), None),
    ] {
        assert_eq!(trigger(&fixture).as_deref(), expected, "row {row}");
    }
}
