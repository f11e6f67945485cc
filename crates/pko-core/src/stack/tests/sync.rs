//! Whether an update is needed, and where the Stack is if none is.

use super::*;

const DETECTED: &str = "event StackUpdateDetected: ";

/// Why an update is started, or the line that says where the Stack is, and when it is looked at
/// again.
fn need(fixture: &StackFixture) -> String {
    let lines = fixture.decide().lines();
    let detected = lines.iter().find_map(|line| line.strip_prefix(DETECTED));
    match detected {
        Some(message) => format!("update: {message}"),
        None => lines[1..].join(", "),
    }
}

#[test]
fn sync_needs_update() {
    let resync = json!({ "continueResyncOnCommitMatch": true });
    for (sentence, fixture, expected) in [
        ("nothing was ever run", fixture(), "Initial stack update"),
        (
            "the spec was edited",
            fixture().last(json!({ "generation": 2 })),
            "New stack generation: 3",
        ),
        (
            "the spec was edited after the last failure allowed",
            fixture()
                .failed(3, 5)
                .last(json!({ "generation": 2, "state": "failed" })),
            "New stack generation: 3",
        ),
        (
            "a request came",
            fixture().last(json!({})).request("now \"please\""),
            r#"Sync request: "now \"please\"""#,
        ),
        (
            "a request was taken back",
            fixture().last(json!({ "reconcileRequest": "a" })),
            r#"Sync request: """#,
        ),
        (
            "there is a new revision",
            fixture().last(json!({})).source(Ok(revision("4"))),
            "New commit detected: \"4\"",
        ),
        (
            "there is a new revision after a failure just now",
            fixture().failed(0, 1).source(Ok(revision("4"))),
            "New commit detected: \"4\"",
        ),
        (
            "there is a new revision after the last failure allowed",
            fixture().failed(3, 1).source(Ok(revision("4"))),
            "New commit detected: \"4\"",
        ),
        (
            "the period of a minute is over",
            fixture()
                .spec(resync.clone())
                .last(json!({ "lastResyncTime": ago(60) })),
            "Resync time elapsed: 1m0s",
        ),
        (
            "the period of ten minutes is over",
            fixture()
                .spec(json!({ "continueResyncOnCommitMatch": true, "resyncFrequencySeconds": 600 }))
                .last(json!({ "lastResyncTime": ago(600) })),
            "Resync time elapsed: 10m0s",
        ),
        (
            "the first wait is over",
            fixture().failed(0, 10),
            "Backoff time elapsed: 10s",
        ),
        (
            "the third wait is over",
            fixture().failed(2, 90),
            "Backoff time elapsed: 1m30s",
        ),
        (
            "the shorter wait is over",
            fixture()
                .spec(json!({ "retryMaxBackoffDurationSeconds": 15 }))
                .failed(2, 15),
            "Backoff time elapsed: 15s",
        ),
        (
            "the time of the failure is unknown",
            fixture()
                .failed(0, 0)
                .last(json!({ "state": "failed", "lastResyncTime": null })),
            "Backoff time elapsed: 10s",
        ),
    ] {
        assert_eq!(need(&fixture), format!("update: {expected}"), "{sentence}");
    }
}

#[test]
fn sync_needs_no_update() {
    let ready = "status Ready, settled";
    let resync = json!({ "continueResyncOnCommitMatch": true, "resyncFrequencySeconds": 600 });
    for (sentence, fixture, expected) in [
        ("the last one succeeded", fixture().last(json!({})), ready),
        (
            "the request was served",
            fixture()
                .last(json!({ "reconcileRequest": "a" }))
                .request("a"),
            ready,
        ),
        (
            "there is no source, and no revision was stored",
            fixture()
                .with(json!({ "spec": { "programRef": null } }))
                .last(json!({ "lastSuccessfulCommit": null })),
            ready,
        ),
        (
            "an hour ago, without resyncs",
            fixture()
                .spec(json!({ "resyncFrequencySeconds": 60 }))
                .last(json!({})),
            ready,
        ),
        (
            "the next resync is due in a while",
            fixture()
                .spec(resync)
                .last(json!({ "lastResyncTime": ago(540) })),
            "status Ready, again in 60s",
        ),
        (
            "the first retry is due in a while",
            fixture().failed(0, 4),
            "status Reconciling RetryingAfterFailure: 0 update failure(s); next attempt at 2023-11-14T22:13:26Z, or when the spec or source changes, again in 6s",
        ),
        (
            "the third retry is due in a while",
            fixture().failed(2, 0),
            "status Reconciling RetryingAfterFailure: 2 update failure(s); next attempt at 2023-11-14T22:14:50Z, or when the spec or source changes, again in 90s",
        ),
        (
            "a preview is tried again in a while",
            fixture()
                .failed(1, 0)
                .last(json!({ "state": "failed", "type": "preview", "lastResyncTime": ago(0) })),
            "status Reconciling PreviewFailed: preview failed (1 attempt(s)); next attempt at 2023-11-14T22:13:50Z, or when the spec or source changes, again in 30s",
        ),
        (
            "it failed too often",
            fixture().failed(3, 200),
            "status Stalled UpdateFailed: up failed 3 times; next attempt at 2023-11-14T22:14:30Z, or when the spec or source changes, again in 70s",
        ),
        (
            "a preview failed too often",
            fixture()
                .failed(8, 3_600)
                .last(json!({ "state": "failed", "type": "preview" })),
            "status Stalled UpdateFailed: preview failed 8 times; next attempt at 2023-11-15T15:26:50Z, or when the spec or source changes, again in 62010s",
        ),
        (
            "its result is unknown",
            fixture().last(json!({ "state": "odd" })),
            ready,
        ),
    ] {
        assert_eq!(need(&fixture), expected, "{sentence}");
        let again = fixture.seen_before();
        let requeue = expected.rsplit(", ").next().unwrap();
        assert_eq!(
            again.decide().lines(),
            ["in-sync", requeue],
            "{sentence}: nothing is written twice"
        );
    }
}

#[test]
fn synced_stack_leaves_workspace_alone() {
    for fixture in [
        fixture().last(json!({})),
        fixture().failed(1, 5),
        fixture().failed(3, 5),
    ] {
        assert_eq!(fixture.decide().request_names(), ["source"]);
    }
}

#[test]
fn workspace_is_reclaimed_once_when_ready() {
    let delete = || fixture().spec(json!({ "workspaceReclaimPolicy": "Delete" }));
    let reclaimed: &[&str] = &[
        "in-sync",
        "delete workspace",
        "status Ready",
        "event WorkspaceDeleted: Workspace deleted per reclaim policy",
        "settled",
    ];
    check([
        (
            "the last update succeeded",
            delete().last(json!({})),
            reclaimed,
        ),
        (
            "the Stack is ready already",
            delete().last(json!({})).seen_before(),
            &["in-sync", "settled"],
        ),
        (
            "the last update failed",
            delete().failed(0, 0),
            &[
                "in-sync",
                "status Reconciling RetryingAfterFailure: 0 update failure(s); next attempt at 2023-11-14T22:13:30Z, or when the spec or source changes",
                "again in 10s",
            ],
        ),
        (
            "the Workspace is to stay",
            fixture()
                .spec(json!({ "workspaceReclaimPolicy": "Retain" }))
                .last(json!({})),
            &["in-sync", "status Ready", "settled"],
        ),
    ]);
}
