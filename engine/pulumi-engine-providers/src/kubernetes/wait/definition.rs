//! Readiness of definitions, quotas and tokens.

use serde_json::Value;

use super::{Progress, conditions};

/// A definition is ready when it is established.
pub(super) fn definition(object: &Value) -> Progress {
    if conditions::is_true(object, "Established") {
        return Progress::Ready;
    }
    let refused = conditions::untrue(object, &["NamesAccepted"]);
    if refused.is_empty() {
        return Progress::waiting("the kind is not established yet");
    }
    Progress::Waiting(refused)
}

/// A quota is ready when the controller has recorded its limits.
pub(super) fn quota(object: &Value) -> Progress {
    let none = Value::Object(serde_json::Map::new());
    let hard = |pointer| object.pointer(pointer).unwrap_or(&none);
    if hard("/spec/hard") == hard("/status/hard") {
        return Progress::Ready;
    }
    Progress::waiting("the quota is not kept yet")
}

/// A token is ready when the controller has written it.
pub(super) fn token(object: &Value) -> Progress {
    let data = object.get("data").and_then(Value::as_object);
    if data.is_some_and(|data| data.contains_key("token")) {
        return Progress::Ready;
    }
    Progress::waiting("the token is not written yet; is there such a service account?")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definition_quota_token_readiness() {
        let names = json!({"status": {"conditions": [{"type": "NamesAccepted", "status": "False", "reason": "ListKindConflict", "message": "taken"}]}});
        let cases = [
            (
                definition(
                    &json!({"status": {"conditions": [{"type": "Established", "status": "True"}]}}),
                ),
                true,
            ),
            (definition(&json!({})), false),
            (definition(&names), false),
            (
                quota(&json!({"spec": {"hard": {"pods": "1"}}, "status": {"hard": {"pods": "1"}}})),
                true,
            ),
            (quota(&json!({"spec": {"hard": {"pods": "1"}}})), false),
            (quota(&json!({"spec": {}})), true),
            (token(&json!({"data": {"token": "eA=="}})), true),
            (token(&json!({"data": {}})), false),
        ];
        for (position, (progress, ready)) in cases.into_iter().enumerate() {
            assert_eq!(
                progress == Progress::Ready,
                ready,
                "{position}: {progress:?}"
            );
        }
        assert_eq!(
            definition(&names),
            Progress::waiting("[ListKindConflict] taken")
        );
    }
}
