use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

fn status(commit: Option<&str>, error: Option<PollError<ListError>>) -> GitStatus {
    PollStatus {
        commit: commit.map(|commit| commit.parse().unwrap()),
        failure: error.map(|error| PollFailure {
            error: Arc::new(error),
            since: Timestamp::UNIX_EPOCH,
        }),
    }
}

fn refused(message: &str, transient: bool, missing: bool) -> PollError<ListError> {
    PollError::Lister(ListError {
        message: message.to_owned(),
        transient,
        missing,
    })
}

#[test]
fn git_status_outcome() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let unavailable = |text: &str| Some(Err(SourceError::Unavailable(text.to_owned())));
    let unreachable = |text: &str| {
        Some(Err(SourceError::Unreachable {
            since: Timestamp::UNIX_EPOCH,
            message: text.to_owned(),
        }))
    };
    let missing = "no commits found for ref \"mian\"; did you mean \"main\"?";
    let table = [
        (status(None, None), None),
        (status(Some(commit), None), Some(Ok(commit.to_owned()))),
        (
            status(None, Some(refused(missing, false, true))),
            unavailable(missing),
        ),
        (
            status(Some(commit), Some(refused("denied", false, false))),
            unavailable("listing: denied"),
        ),
        (
            status(Some(commit), Some(refused("no route", true, false))),
            unreachable("listing: no route"),
        ),
        (
            status(None, Some(PollError::Deadline)),
            unreachable("listing: the server did not respond in time"),
        ),
        (
            status(None, Some(PollError::Crashed)),
            unreachable("listing: the request panicked"),
        ),
    ];
    for (status, expected) in table {
        assert_eq!(is_resolved(&status), expected.is_some(), "{status:?}");
        assert_eq!(outcome(&status), expected, "{status:?}");
    }
}

fn read_trigger(metadata: &Value) -> ReadTrigger {
    let stack = json!({ "metadata": metadata, "spec": { "stack": "dev" } });
    ReadTrigger::of(&serde_json::from_value(stack).unwrap())
}

#[test]
fn read_trigger_changes_with_spec_request_and_stack() {
    let before = read_trigger(&json!({ "uid": "u", "generation": 1 }));
    let requested = |key: &str, value: &str| {
        read_trigger(&json!({ "uid": "u", "generation": 1, "annotations": { key: value } }))
    };
    assert_eq!(
        before,
        read_trigger(&json!({ "uid": "u", "generation": 1, "labels": { "a": "b" } }))
    );
    assert_eq!(before, requested("else", "1"));
    for other in [
        read_trigger(&json!({ "uid": "u", "generation": 2 })),
        read_trigger(&json!({ "uid": "v", "generation": 1 })),
        requested("pulumi.com/reconciliation-request", "1"),
        requested("reconcile.fluxcd.io/requestedAt", "1"),
    ] {
        assert_ne!(before, other);
    }
}
