//! Reduces a status that the API server rejects. Without a writable status the object could not
//! even be deleted, because a deletion is reported too.

use serde_json::{Map, Value};

use crate::condition_set::shorten_to;

/// The largest field that is kept.
const MAX_FIELD_BYTES: usize = 16 * 1024;
/// The longest message that is kept whole. Other strings are not changed: they may be read as
/// values.
const MAX_MESSAGE_BYTES: usize = 1024;
const CONDITIONS: &str = "conditions";

/// A status without large fields and without invalid fields, such as `status.permalink`. The
/// conditions stay, and name the missing fields.
#[must_use]
pub fn reduced_status(status: &Value, invalid: &[String]) -> Value {
    let Some(fields) = status.as_object() else {
        return status.clone();
    };
    let is_invalid = |name: &str| {
        let mut invalid = invalid
            .iter()
            .filter_map(|path| path.strip_prefix("status."));
        invalid.any(|path| path.split(['.', '[']).next() == Some(name))
    };
    let (mut kept, mut missing) = (Map::new(), Vec::new());
    for (name, value) in fields {
        let value = with_short_messages(value);
        let fits = value.to_string().len() <= MAX_FIELD_BYTES && !is_invalid(name);
        if fits || name == CONDITIONS {
            kept.insert(name.clone(), value);
        } else {
            missing.push(name.as_str());
        }
    }
    remark(&mut kept, &missing);
    kept.into()
}

/// The recursion is bounded by the depth of the parsed status.
fn with_short_messages(value: &Value) -> Value {
    let short = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) if name == "message" => shorten_to(text, MAX_MESSAGE_BYTES).into(),
            other => with_short_messages(other),
        };
        (name.clone(), value)
    };
    match value {
        Value::Array(items) => items.iter().map(with_short_messages).collect(),
        Value::Object(fields) => Value::Object(fields.iter().map(short).collect()),
        other => other.clone(),
    }
}

/// Adds the missing fields to the message of each condition.
fn remark(status: &mut Map<String, Value>, missing: &[&str]) {
    let conditions = status.get_mut(CONDITIONS).and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        let Some(Value::String(message)) = condition.get_mut("message") else {
            continue;
        };
        let separator = if message.is_empty() { "" } else { "; " };
        let what = if missing.is_empty() {
            "long messages are shortened".to_owned()
        } else {
            format!("the status lacks {}", missing.join(" and "))
        };
        message.push_str(separator);
        message.push_str(&what);
        message.push_str(", because the API server rejected the whole status");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn condition(message: &str) -> Value {
        json!([{ "type": "Ready", "status": "False", "reason": "R", "message": message }])
    }

    #[test]
    fn reduced_status_lacks_large_and_invalid_fields_and_says_so() {
        let status = json!({
            "observedGeneration": 3,
            "outputs": { "long": "x".repeat(20_000) },
            "lastUpdate": { "state": "failed", "message": "m".repeat(5000) },
            "permalink": "nonsense",
            "conditions": condition("The update failed"),
        });
        let invalid = ["status.permalink".to_owned(), "spec.outputs".to_owned()];
        let reduced = reduced_status(&status, &invalid);
        assert_eq!(reduced["observedGeneration"], 3);
        assert_eq!(reduced["lastUpdate"]["state"], "failed");
        assert!(reduced["lastUpdate"]["message"].as_str().unwrap().len() <= MAX_MESSAGE_BYTES);
        assert_eq!(
            (&reduced["outputs"], &reduced["permalink"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!(
            reduced["conditions"][0]["message"],
            "The update failed; the status lacks outputs and permalink, because the API server \
             rejected the whole status"
        );
    }

    #[test]
    fn reduced_status_keeps_conditions_whatever_is_invalid() {
        let status = json!({ "conditions": condition(&"m".repeat(40_000)) });
        let invalid = ["status.conditions[0].message".to_owned()];
        let reduced = reduced_status(&status, &invalid);
        let message = reduced["conditions"][0]["message"].as_str().unwrap();
        assert!(message.len() < 2 * MAX_MESSAGE_BYTES);
        assert!(
            message.ends_with("because the API server rejected the whole status"),
            "{message}"
        );
    }
}
