//! Readiness by standard conditions.

use serde_json::Value;

use super::{Progress, is_observed};
use crate::kubernetes::object::{list, text};

/// An object is ready if no condition contradicts it, and its controller is not working on it.
pub(super) fn judge(object: &Value) -> Progress {
    if object.pointer("/status/observedGeneration").is_some() && !is_observed(object) {
        return Progress::waiting("the controller has not seen the object yet");
    }
    if text(object, "/metadata/deletionTimestamp").is_some() {
        return Progress::waiting("the object is being deleted");
    }
    let stalled = messages(object, "Stalled");
    if !stalled.is_empty() {
        return Progress::Failed(stalled);
    }
    let reasons = [untrue(object, &["Ready"]), messages(object, "Reconciling")].concat();
    if reasons.is_empty() {
        Progress::Ready
    } else {
        Progress::Waiting(reasons)
    }
}

/// The condition of a type.
pub(super) fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == Some(kind))
}

/// Whether a condition exists and is true.
pub(super) fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).is_some_and(|condition| text(condition, "/status") == Some("True"))
}

/// The messages of conditions that are not true.
pub(super) fn untrue(object: &Value, kinds: &[&str]) -> Vec<String> {
    kinds
        .iter()
        .filter_map(|kind| find(object, kind))
        .filter(|condition| text(condition, "/status") != Some("True"))
        .map(describe)
        .collect()
}

/// The message of a condition that reports an error when it is true.
pub(super) fn messages(object: &Value, kind: &str) -> Vec<String> {
    find(object, kind)
        .filter(|condition| text(condition, "/status") == Some("True"))
        .map(describe)
        .into_iter()
        .collect()
}

/// `[Reason] message`; either may be missing.
pub(super) fn describe(condition: &Value) -> String {
    let kind = text(condition, "/type").unwrap_or("condition");
    match (text(condition, "/reason"), text(condition, "/message")) {
        (Some(reason), Some(message)) => format!("[{reason}] {message}"),
        (Some(reason), None) => format!(
            "[{reason}] {kind} is {}",
            text(condition, "/status").unwrap_or("Unknown")
        ),
        (None, Some(message)) => format!("{kind}: {message}"),
        (None, None) => format!(
            "{kind} is {}",
            text(condition, "/status").unwrap_or("Unknown")
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_decide_readiness() {
        let condition = |kind: &str, status: &str| json!([{"type": kind, "status": status, "reason": "Because", "message": "of it"}]);
        let waiting = || Progress::waiting("[Because] of it");
        let cases = [
            (json!({}), Progress::Ready),
            (
                json!({"status": {"conditions": condition("Ready", "True")}}),
                Progress::Ready,
            ),
            (
                json!({"status": {"conditions": condition("Ready", "False")}}),
                waiting(),
            ),
            (
                json!({"status": {"conditions": condition("Ready", "Unknown")}}),
                waiting(),
            ),
            (
                json!({"status": {"conditions": condition("Reconciling", "True")}}),
                waiting(),
            ),
            (
                json!({"status": {"conditions": condition("Reconciling", "False")}}),
                Progress::Ready,
            ),
            (
                json!({"status": {"conditions": condition("Stalled", "True")}}),
                Progress::Failed(vec!["[Because] of it".into()]),
            ),
            (
                json!({"status": {"conditions": condition("Synced", "False")}}),
                Progress::Ready,
            ),
            (
                json!({"metadata": {"generation": 2}, "status": {"observedGeneration": 1, "conditions": condition("Ready", "True")}}),
                Progress::waiting("the controller has not seen the object yet"),
            ),
            (
                json!({"metadata": {"deletionTimestamp": "now"}}),
                Progress::waiting("the object is being deleted"),
            ),
        ];
        for (object, expected) in cases {
            assert_eq!(judge(&object), expected, "{object}");
        }
    }

    #[test]
    fn conditions_without_message_show_reason() {
        for (condition, expected) in [
            (
                json!({"type": "A", "status": "False", "reason": "R", "message": "m"}),
                "[R] m",
            ),
            (
                json!({"type": "A", "status": "False", "reason": "R"}),
                "[R] A is False",
            ),
            (
                json!({"type": "A", "status": "False", "message": "m"}),
                "A: m",
            ),
            (json!({"type": "A", "status": "False"}), "A is False"),
        ] {
            assert_eq!(describe(&condition), expected);
        }
    }
}
