//! What others rely on, row by row: the conditions and when they are set, when a Stack is looked at
//! again, whether an update is needed, and the events. Where a row differs from upstream's, a
//! comment says how and why.

mod conditions;
mod events;
mod need;
mod requeue;

use super::*;

/// A deleted Stack that needs a destroy for an earlier update.
fn awaiting_destroy() -> StackFixture {
    fixture()
        .deleting()
        .spec(json!({ "destroyOnFinalize": true }))
        .last(json!({ "generation": 2 }))
}

/// The current Update, under way.
fn running() -> Value {
    json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "up" },
        "status": { "conditions": [condition("Progressing", "True", "Progressing", "")] },
    })
}

/// The current Update at its end.
fn ended(failed: bool) -> Value {
    let failed = if failed { "True" } else { "False" };
    json!({
        "metadata": { "name": "demo-2" },
        "spec": { "type": "up" },
        "status": { "message": "no such region", "conditions": [
            condition("Failed", failed, "UpdateFailed", ""), condition("Complete", "True", "Updated", ""),
        ] },
    })
}

/// The Workspace is not ready, for this reason.
fn unready(reason: &str, stalled: bool) -> StackFixture {
    let mut conditions = vec![condition("Ready", "False", reason, "no network")];
    if stalled {
        conditions.push(condition("Stalled", "True", reason, "no network"));
    }
    fixture().workspace(json!({ "status": { "conditions": conditions } }))
}

/// Has the prerequisite `base`, which does not exist.
fn waiting_for_base() -> StackFixture {
    let mut fixture = fixture().spec(json!({ "prerequisites": [{ "name": "base" }] }));
    let error = "stacks.pulumi.com \"base\" not found".to_owned();
    fixture.prerequisites.insert("base".to_owned(), Err(error));
    fixture
}

fn invalid_source() -> StackFixture {
    let message = "missing \"commit\" or \"branch\"".to_owned();
    fixture().source(Err(SourceError::Invalid(message)))
}

/// The last Update failed just now, as this class and by this operation.
fn failed_just_now(operation: &str, failures: i64, class: Option<&str>) -> StackFixture {
    fixture().failed(failures, 0).status(json!({
        "lastUpdate": { "type": operation, "failureClass": class },
    }))
}
