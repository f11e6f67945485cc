//! Upstream's 137 scenarios of a Stack, by their numbers, with our outcome where it differs on
//! purpose; a comment then says what upstream does.

mod current_update;
mod environment;
mod finalization;
mod prerequisites;
mod scenario_index;
mod sources;
mod triggers;
mod unit;
mod updates;

use super::*;

const REMOVE_FINALIZER: &str = "remove finalizer";
/// A Workspace's own events end the wait; this is for one that was missed.
const LOOK_AGAIN: &str = "again in 20s";

/// Plays scenarios: the number, what is given, and what is done and when to look again.
fn play<const N: usize>(table: [(u16, &str, StackFixture, &[&str]); N]) {
    for (number, sentence, fixture, expected) in table {
        let lines = fixture.decide().lines();
        assert_eq!(lines[1..], *expected, "{number}: {sentence}");
    }
}

/// The status that is published before the Workspace is applied.
fn published(outcome: &StackOutcome) -> String {
    let status = outcome.requests.iter().find_map(|request| match request {
        StackStep::Write(StackWrite::ApplyWorkspace(_, status)) => Some(state(status)),
        _ => None,
    });
    format!("status {}", status.unwrap())
}

/// The Workspace that is applied.
fn workspace(fixture: &StackFixture) -> Value {
    let requests = fixture.decide().requests;
    let workspace = requests.into_iter().find_map(|request| match request {
        StackStep::Write(StackWrite::ApplyWorkspace(workspace, _)) => Some(workspace),
        _ => None,
    });
    serde_json::to_value(workspace.unwrap()).unwrap()
}

/// The current Update, under way.
fn running() -> Value {
    json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "up" },
        "status": { "conditions": [condition("Progressing", "True", "Progressing", "")] },
    })
}

/// The current Update at its end, with this in its status.
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
