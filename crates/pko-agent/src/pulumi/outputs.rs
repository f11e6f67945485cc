//! A stack's outputs: from the events if these contain all values, else from the CLI.

use std::collections::BTreeMap;

use pko_proto::agent::OutputValue;
use serde_json::{Map, Value};

/// In an event, an object with this key stands for a secret, an asset, a reference or the like.
const SIGNATURE: &str = "4dabf18193072939515e22adb298388d";
const SECRET: &str = "1b47061264138c4ac30d75fd1eb44270";

/// Pulumi's marker for an unknown value: in a preview, or of a resource that was not a target.
const UNKNOWN: &str = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
const HIDDEN: &str = "[secret]";

pub(crate) type Outputs = BTreeMap<String, OutputValue>;

/// The outputs, if the event has all of them in clear text.
pub(crate) fn from_event(outputs: &Map<String, Value>) -> Option<Outputs> {
    let plain = !outputs.values().any(has_signature);
    plain.then(|| with_secrets(outputs, |_| false))
}

/// The outputs of `--show-secrets`. The event marks which of them are secret.
pub(crate) fn with_event(printed: &Map<String, Value>, event: &Map<String, Value>) -> Outputs {
    with_secrets(printed, |name| event.get(name).is_none_or(has_secret))
}

/// The outputs of `--show-secrets`. The output without that flag shows which of them are secret.
pub(crate) fn with_blinded(printed: &Map<String, Value>, blinded: &Map<String, Value>) -> Outputs {
    with_secrets(printed, |name| {
        blinded
            .get(name)
            .is_none_or(|value| value.to_string().contains(HIDDEN))
    })
}

/// The planned outputs of a preview. Values that contain a secret are hidden, and values that only
/// the update determines are marked as unknown.
pub(crate) fn planned(event: &Map<String, Value>) -> Outputs {
    let output = |(name, value): (&String, &Value)| {
        let secret = has_secret(value);
        let shown = if secret {
            Value::from(HIDDEN)
        } else {
            mark_unknown(value)
        };
        let value = shown.to_string().into_bytes();
        (name.clone(), OutputValue { value, secret })
    };
    event.iter().map(output).collect()
}

fn mark_unknown(value: &Value) -> Value {
    match value {
        Value::String(text) if text == UNKNOWN => Value::from("[unknown]"),
        Value::Array(items) => items.iter().map(mark_unknown).collect(),
        Value::Object(object) => {
            let inner = object.iter();
            let inner = inner.map(|(key, value)| (key.clone(), mark_unknown(value)));
            Value::Object(inner.collect())
        }
        other => other.clone(),
    }
}

/// The strings in secret outputs, for the mask.
pub(crate) fn secret_strings(outputs: &Outputs) -> Vec<String> {
    let mut texts = Vec::new();
    for output in outputs.values().filter(|output| output.secret) {
        if let Ok(value) = serde_json::from_slice(&output.value) {
            collect_strings(&value, &mut texts);
        }
    }
    texts
}

/// Leaves out unknown values, which belong to resources that were not targets.
fn with_secrets(values: &Map<String, Value>, is_secret: impl Fn(&str) -> bool) -> Outputs {
    let output = |(name, value): (&String, &Value)| {
        let output = OutputValue {
            value: value.to_string().into_bytes(),
            secret: is_secret(name),
        };
        (name.clone(), output)
    };
    let known = values.iter().filter(|(_, value)| !has_unknown(value));
    known.map(output).collect()
}

fn has_unknown(value: &Value) -> bool {
    let mut texts = Vec::new();
    collect_strings(value, &mut texts);
    texts.iter().any(|text| text == UNKNOWN)
}

fn has_signature(value: &Value) -> bool {
    any_object(value, &|object| object.contains_key(SIGNATURE))
}

fn has_secret(value: &Value) -> bool {
    any_object(value, &|object| {
        object
            .get(SIGNATURE)
            .is_some_and(|signature| signature == SECRET)
    })
}

fn any_object(value: &Value, test: &dyn Fn(&Map<String, Value>) -> bool) -> bool {
    match value {
        Value::Object(object) => {
            test(object) || object.values().any(|inner| any_object(inner, test))
        }
        Value::Array(items) => items.iter().any(|inner| any_object(inner, test)),
        _ => false,
    }
}

fn collect_strings(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_strings(item, texts)),
        Value::Object(object) => object
            .values()
            .for_each(|item| collect_strings(item, texts)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn unknown_outputs_are_left_out() {
        let printed = map(json!({ "a": "1", "b": UNKNOWN, "c": { "d": [UNKNOWN] } }));
        let names = |outputs: Outputs| outputs.into_keys().collect::<Vec<_>>();
        assert_eq!(names(from_event(&printed).unwrap()), ["a"]);
        assert_eq!(names(with_event(&printed, &printed)), ["a"]);
        assert_eq!(names(with_blinded(&printed, &printed)), ["a"]);
    }

    fn shown(outputs: &Outputs) -> Vec<(&str, &str, bool)> {
        let line = |(name, output): (&'_ String, &'_ OutputValue)| {
            (
                name.clone(),
                String::from_utf8(output.value.clone()).unwrap(),
                output.secret,
            )
        };
        let lines: Vec<_> = outputs.iter().map(line).collect();
        lines
            .into_iter()
            .map(|(name, value, secret)| (&*name.leak(), &*value.leak(), secret))
            .collect()
    }

    #[test]
    fn plain_outputs_come_from_event() {
        let outputs = from_event(&map(
            json!({"b": {"z": 1, "a": [true, null, 2.5]}, "a": "x"}),
        ));
        assert_eq!(
            shown(&outputs.unwrap()),
            [
                ("a", "\"x\"", false),
                ("b", r#"{"a":[true,null,2.5],"z":1}"#, false)
            ]
        );
        assert_eq!(from_event(&map(json!({}))), Some(Outputs::new()));
    }

    #[test]
    fn secret_outputs_come_from_cli() {
        let secret = json!({SIGNATURE: SECRET, "ciphertext": "[secret]"});
        let event =
            map(json!({"deep": {"inner": [secret]}, "plain": 1, "asset": {SIGNATURE: "other"}}));
        assert_eq!(from_event(&event), None);
        let printed =
            map(json!({"deep": {"inner": ["hidden"]}, "plain": 1, "asset": {}, "unknown": 2}));
        let outputs = with_event(&printed, &event);
        assert_eq!(
            shown(&outputs),
            [
                ("asset", "{}", false),
                ("deep", r#"{"inner":["hidden"]}"#, true),
                ("plain", "1", false),
                ("unknown", "2", true),
            ]
        );
        assert_eq!(secret_strings(&outputs), ["hidden"]);
    }

    #[test]
    fn planned_outputs_hide_secrets_and_mark_unknowns() {
        let secret = json!({SIGNATURE: SECRET, "plaintext": "hidden"});
        let event = map(json!({
            "deep": {"inner": [secret]}, "list": [1, UNKNOWN], "plain": "x", "unknown": UNKNOWN,
        }));
        assert_eq!(
            shown(&planned(&event)),
            [
                ("deep", "\"[secret]\"", true),
                ("list", r#"[1,"[unknown]"]"#, false),
                ("plain", "\"x\"", false),
                ("unknown", "\"[unknown]\"", false),
            ]
        );
    }

    #[test]
    fn outputs_without_event_compare_blinded_values() {
        let printed = map(json!({"a": "x", "b": "y"}));
        let blinded = map(json!({"a": "[secret]", "b": "y"}));
        assert_eq!(
            shown(&with_blinded(&printed, &blinded)),
            [("a", "\"x\"", true), ("b", "\"y\"", false)]
        );
    }
}
