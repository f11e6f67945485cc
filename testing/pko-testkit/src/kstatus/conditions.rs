//! The conditions of an object, and their validation by the rules of `metav1.Condition`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

const LONGEST_REASON: usize = 1024;
const LONGEST_MESSAGE: usize = 32768;

pub(super) struct Condition<'a>(&'a Value);

impl<'a> Condition<'a> {
    pub(super) fn kind(&self) -> &'a str {
        self.text("type").unwrap_or_default()
    }

    pub(super) fn status(&self) -> &'a str {
        self.text("status").unwrap_or_default()
    }

    pub(super) fn is_true(&self) -> bool {
        self.status() == "True"
    }

    fn text(&self, field: &str) -> Option<&'a str> {
        self.0.get(field)?.as_str()
    }

    fn violations(&self, generation: Option<i64>, now: Timestamp) -> Vec<String> {
        let found = [
            self.kind_violation(),
            self.status_violation(),
            self.reason_violation(),
            self.message_violation(),
            self.time_violation(now),
            self.generation_violation(generation),
        ];
        found
            .into_iter()
            .flatten()
            .map(|text| format!("{}: {text}", self.kind()))
            .collect()
    }

    fn kind_violation(&self) -> Option<String> {
        let name = self.kind().rsplit('/').next().unwrap_or_default();
        let inside = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let good = name.chars().all(inside)
            && name.starts_with(is_alphanumeric)
            && name.ends_with(is_alphanumeric);
        (!good).then(|| format!("`{}` is no condition type", self.kind()))
    }

    fn status_violation(&self) -> Option<String> {
        let status = self.0.get("status").unwrap_or(&Value::Null);
        let good = matches!(self.status(), "True" | "False" | "Unknown");
        (!good).then(|| format!("the status is {status}, not True, False or Unknown"))
    }

    fn reason_violation(&self) -> Option<String> {
        let Some(reason) = self.text("reason") else {
            return Some("there is no reason".to_owned());
        };
        let inside = |c: char| is_alphanumeric(c) || "_,:".contains(c);
        let good = reason.len() <= LONGEST_REASON
            && reason.chars().all(inside)
            && reason.starts_with(|c: char| c.is_ascii_alphabetic())
            && reason.ends_with(|c: char| is_alphanumeric(c) || c == '_');
        (!good).then(|| format!("the reason `{reason}` is not one word in CamelCase"))
    }

    fn message_violation(&self) -> Option<String> {
        match self.text("message") {
            None => Some("there is no message".to_owned()),
            Some(message) if message.chars().count() > LONGEST_MESSAGE => Some(format!(
                "the message is longer than {LONGEST_MESSAGE} characters"
            )),
            Some(_) => None,
        }
    }

    fn time_violation(&self, now: Timestamp) -> Option<String> {
        let Some(text) = self.text("lastTransitionTime") else {
            return Some("there is no lastTransitionTime".to_owned());
        };
        match text.parse::<Timestamp>() {
            Err(_) => Some(format!("lastTransitionTime `{text}` is no time")),
            Ok(time) if time > now => Some(format!("lastTransitionTime {text} is in the future")),
            Ok(_) => None,
        }
    }

    fn generation_violation(&self, generation: Option<i64>) -> Option<String> {
        let observed = self.0.get("observedGeneration")?.as_i64()?;
        let generation = generation.filter(|generation| observed > *generation)?;
        Some(format!(
            "observedGeneration {observed} is ahead of generation {generation}"
        ))
    }
}

fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

pub(super) fn conditions(object: &Value) -> impl Iterator<Item = Condition<'_>> {
    let list = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    list.into_iter().flatten().map(Condition)
}

pub(super) fn violations(object: &Value, now: Timestamp) -> Vec<String> {
    let generation = super::generation(object);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for condition in conditions(object) {
        if !seen.insert(condition.kind()) {
            found.push(format!("{}: it is there twice", condition.kind()));
        }
        found.extend(condition.violations(generation, now));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn condition_fields_are_validated() {
        let cases = [
            ("reason", json!("ok:Yes_1"), None),
            (
                "reason",
                json!("two words"),
                Some("the reason `two words` is not one word in CamelCase"),
            ),
            (
                "reason",
                json!(""),
                Some("the reason `` is not one word in CamelCase"),
            ),
            (
                "reason",
                json!("1st"),
                Some("the reason `1st` is not one word in CamelCase"),
            ),
            (
                "reason",
                json!("Colon:"),
                Some("the reason `Colon:` is not one word in CamelCase"),
            ),
            ("reason", json!(null), Some("there is no reason")),
            ("message", json!(null), Some("there is no message")),
            (
                "message",
                json!("x".repeat(40_000)),
                Some("the message is longer than 32768 characters"),
            ),
            (
                "status",
                json!(true),
                Some("the status is true, not True, False or Unknown"),
            ),
            (
                "lastTransitionTime",
                json!(null),
                Some("there is no lastTransitionTime"),
            ),
            (
                "lastTransitionTime",
                json!("yesterday"),
                Some("lastTransitionTime `yesterday` is no time"),
            ),
            (
                "lastTransitionTime",
                json!("2026-01-02T00:00:01Z"),
                Some("lastTransitionTime 2026-01-02T00:00:01Z is in the future"),
            ),
            ("observedGeneration", json!(1), None),
            (
                "observedGeneration",
                json!(2),
                Some("observedGeneration 2 is ahead of generation 1"),
            ),
        ];
        for (field, value, expected) in cases {
            let mut condition = json!({
                "type": "Ready", "status": "True", "reason": "Good", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            condition[field] = value;
            let object = json!({
                "metadata": { "generation": 1 }, "status": { "conditions": [condition] },
            });
            let found = violations(&object, "2026-01-02T00:00:00Z".parse().unwrap());
            let expected: Vec<String> = expected
                .into_iter()
                .map(|text| format!("Ready: {text}"))
                .collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn duplicate_condition_type_is_a_violation() {
        let condition = json!({
            "type": "example.com/Odd", "status": "Unknown", "reason": "Good", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let object = json!({ "status": { "conditions": [condition, condition] } });
        let found = violations(&object, "2026-01-02T00:00:00Z".parse().unwrap());
        assert_eq!(found, ["example.com/Odd: it is there twice"]);
    }
}
