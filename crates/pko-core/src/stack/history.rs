//! How many finished Updates of a Stack are kept.

use jiff::Timestamp;
use pko_api::{Stack, Update, names::conditions::ConditionType};

use crate::condition_set::is_true;
use crate::finalizers::has_stack_finalizer;

/// The finished Updates beyond the limits of the spec, the oldest first. The current Update is
/// never one of them, nor an Update that has our finalizer or is being deleted.
pub fn updates_to_prune<'updates>(
    stack: &Stack,
    updates: impl IntoIterator<Item = &'updates Update>,
) -> Vec<&'updates Update> {
    let spec = &stack.spec;
    let ended: Vec<&Update> = updates
        .into_iter()
        .filter(|update| belongs_to(update, stack) && has(update, ConditionType::Complete))
        .collect();
    let (failed, succeeded): (Vec<&Update>, Vec<&Update>) = ended
        .into_iter()
        .partition(|update| has(update, ConditionType::Failed));
    let mut all = beyond_limit(succeeded, spec.successful_updates_history_limit);
    all.extend(beyond_limit(failed, spec.failed_updates_history_limit));
    all.retain(|update| is_unneeded(update, stack));
    all.sort_by_key(|update| age(update));
    all
}

fn belongs_to(update: &Update, stack: &Stack) -> bool {
    let owners = update.metadata.owner_references.iter().flatten();
    let mut uids = owners.map(|owner| Some(&owner.uid));
    stack.metadata.uid.is_some() && uids.any(|uid| uid == stack.metadata.uid.as_ref())
}

fn has(update: &Update, kind: ConditionType) -> bool {
    let status = update.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, kind))
}

/// The Updates without the newest ones that the limit keeps.
fn beyond_limit(mut updates: Vec<&Update>, limit: Option<i64>) -> Vec<&Update> {
    let Some(limit) = limit else {
        return Vec::new();
    };
    updates.sort_by_key(|update| std::cmp::Reverse(age(update)));
    let kept = usize::try_from(limit).unwrap_or(0);
    updates.into_iter().skip(kept).collect()
}

/// Orders by creation, and by end within the same second.
fn age(update: &Update) -> (Option<Timestamp>, Option<Timestamp>, Option<&String>) {
    let created = update.metadata.creation_timestamp.as_ref();
    let status = update.status.as_ref();
    let ended = status.and_then(|status| status.end_time.as_ref());
    (
        created.map(|time| time.0),
        ended.map(|time| time.0),
        update.metadata.name.as_ref(),
    )
}

/// Whether the Update is no longer needed: its result is recorded, and another one is current.
fn is_unneeded(update: &Update, stack: &Stack) -> bool {
    let metadata = &update.metadata;
    let current = stack.status.as_ref();
    let current = current.and_then(|status| status.current_update.as_ref());
    let is_current = current.is_some_and(|current| current.name == metadata.name);
    !has_stack_finalizer(metadata) && !is_current && metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A Stack that has just recorded the result of `demo-9`, as it was read before that.
    fn stack(limits: &Value) -> Stack {
        let mut stack = json!({
            "metadata": { "name": "demo", "uid": "stack-uid" }, "spec": { "stack": "dev" },
            "status": { "currentUpdate": { "name": "demo-9" }, "lastUpdate": { "name": "demo-8" } },
        });
        let limits = limits.as_object().unwrap().clone();
        stack["spec"].as_object_mut().unwrap().extend(limits);
        serde_json::from_value(stack).unwrap()
    }

    /// An Update that was created in this minute.
    fn update(minute: u32, kind: &str) -> Value {
        let condition = |kind: &str, status: bool| {
            json!({
                "type": kind, "status": if status { "True" } else { "False" }, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        json!({
            "metadata": {
                "name": format!("demo-{minute}"), "creationTimestamp": format!("2026-01-01T00:0{minute}:00Z"),
                "ownerReferences": [
                    { "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Workspace", "name": "demo", "uid": "w" },
                    { "apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "demo", "uid": "stack-uid" },
                ],
            },
            "status": { "conditions": [
                condition("Complete", kind != "running"), condition("Failed", kind == "failed"),
            ] },
        })
    }

    fn pruned(limits: &Value, updates: Vec<Value>) -> Vec<String> {
        let updates: Vec<Update> = updates
            .into_iter()
            .map(|update| serde_json::from_value(update).unwrap())
            .collect();
        let names = updates_to_prune(&stack(limits), &updates);
        let names = names.into_iter().map(|update| update.metadata.name.clone());
        names.flatten().collect()
    }

    /// Out of order, as a cache has them: 1, 3, 5, 7, 9 succeeded, the others failed.
    fn nine() -> Vec<Value> {
        [4, 9, 1, 6, 3, 8, 2, 7, 5]
            .map(|minute| update(minute, if minute % 2 == 0 { "failed" } else { "ok" }))
            .into()
    }

    #[test]
    fn history_limits_keep_newest_of_each_kind() {
        for (limits, expected) in [
            (json!({}), vec![]),
            (
                json!({ "successfulUpdatesHistoryLimit": 2 }),
                vec!["demo-1", "demo-3", "demo-5"],
            ),
            (json!({ "failedUpdatesHistoryLimit": 3 }), vec!["demo-2"]),
            (
                json!({ "successfulUpdatesHistoryLimit": 2, "failedUpdatesHistoryLimit": 1 }),
                vec!["demo-1", "demo-2", "demo-3", "demo-4", "demo-5", "demo-6"],
            ),
            (json!({ "successfulUpdatesHistoryLimit": 99 }), vec![]),
        ] {
            assert_eq!(pruned(&limits, nine()), expected, "{limits}");
        }
    }

    #[test]
    fn history_keeps_last_update() {
        let limits = json!({ "successfulUpdatesHistoryLimit": 0, "failedUpdatesHistoryLimit": 0 });
        let pruned = pruned(&limits, nine());
        assert_eq!(pruned.len(), 8);
        assert!(!pruned.contains(&"demo-9".to_owned()), "{pruned:?}");
    }

    #[test]
    fn history_keeps_updates_in_use() {
        let limits = json!({ "successfulUpdatesHistoryLimit": 0 });
        let mut held = update(1, "ok");
        held["metadata"]["finalizers"] = json!(["finalizer.stack.pulumi.com"]);
        let mut foreign = update(2, "ok");
        foreign["metadata"]["ownerReferences"][1]["uid"] = json!("another");
        let mut going = update(3, "ok");
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let running = update(4, "running");
        let mut watched = update(5, "ok");
        watched["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let updates = vec![held, foreign, going, running, watched];
        assert_eq!(pruned(&limits, updates), ["demo-5"]);
    }

    #[test]
    fn history_prunes_earliest_end_of_same_second() {
        let ended = |number: u32, second: u32| {
            let mut update = update(1, "ok");
            update["metadata"]["name"] = json!(format!("demo-x{number}"));
            update["status"]["endTime"] = json!(format!("2026-01-01T00:01:0{second}Z"));
            update
        };
        let limits = json!({ "successfulUpdatesHistoryLimit": 1 });
        assert_eq!(
            pruned(&limits, vec![ended(1, 3), ended(2, 1), ended(3, 2)]),
            ["demo-x2", "demo-x3"]
        );
    }
}
