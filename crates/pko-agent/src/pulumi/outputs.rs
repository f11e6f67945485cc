//! A stack's outputs, from the events if they say everything, else from what the CLI prints.

use std::collections::BTreeMap;

use pko_proto::agent::OutputValue;
use serde_json::{Map, Value};

/// In an event, an object with this key is no object but a secret, an asset, a reference or such.
const SIGNATURE: &str = "4dabf18193072939515e22adb298388d";
/// The signature of a secret.
const SECRET: &str = "1b47061264138c4ac30d75fd1eb44270";

/// This text is a value that is not known: in a preview, or because its resource was none of the targets of an update.
const UNKNOWN: &str = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
/// What stands in the place of a secret.
const HIDDEN: &str = "[secret]";

/// The outputs as they go over the wire.
pub(crate) type Outputs = BTreeMap<String, OutputValue>;

/// The outputs, if the event has them all in clear text.
pub(crate) fn from_event(outputs: &Map<String, Value>) -> Option<Outputs> {
    let plain = !outputs.values().any(has_signature);
    plain.then(|| with_secrets(outputs, |_| false))
}

/// The outputs as printed with `--show-secrets`; which of them are secret is known from the event.
pub(crate) fn with_event(printed: &Map<String, Value>, event: &Map<String, Value>) -> Outputs {
    with_secrets(printed, |name| event.get(name).is_none_or(has_secret))
}

/// The outputs as printed with `--show-secrets`; which of them are secret is known from printing
/// them without.
pub(crate) fn with_blinded(printed: &Map<String, Value>, blinded: &Map<String, Value>) -> Outputs {
    with_secrets(printed, |name| {
        blinded
            .get(name)
            .is_none_or(|value| value.to_string().contains(HIDDEN))
    })
}

/// What the outputs would be, as the events of a preview say. What is secret or has something secret inside is hidden,
/// and what only the update itself would tell is said to be unknown.
pub(crate) fn planned(event: &Map<String, Value>) -> Outputs {
    let output = |(name, value): (&String, &Value)| {
        let secret = has_secret(value);
        let shown = if secret {
            Value::from(HIDDEN)
        } else {
            without_unknown(value)
        };
        let value = shown.to_string().into_bytes();
        (name.clone(), OutputValue { value, secret })
    };
    event.iter().map(output).collect()
}

fn without_unknown(value: &Value) -> Value {
    match value {
        Value::String(text) if text == UNKNOWN => Value::from("[unknown]"),
        Value::Array(items) => items.iter().map(without_unknown).collect(),
        Value::Object(object) => {
            let inner = object.iter();
            let inner = inner.map(|(key, value)| (key.clone(), without_unknown(value)));
            Value::Object(inner.collect())
        }
        other => other.clone(),
    }
}

/// The texts inside of secret outputs, which must be printed nowhere.
pub(crate) fn secret_texts(outputs: &Outputs) -> Vec<String> {
    let mut texts = Vec::new();
    for output in outputs.values().filter(|output| output.secret) {
        if let Ok(value) = serde_json::from_slice(&output.value) {
            collect_texts(&value, &mut texts);
        }
    }
    texts
}

/// What has a value. Nobody can do anything with an output that waits for a resource that was no target.
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
    collect_texts(value, &mut texts);
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

fn collect_texts(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(object) => object.values().for_each(|item| collect_texts(item, texts)),
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
    fn what_waits_for_a_resource_that_was_no_target_is_no_output() {
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
    fn plain_outputs_need_no_further_call() {
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
    fn a_secret_or_an_asset_needs_one() {
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
        assert_eq!(secret_texts(&outputs), ["hidden"]);
    }

    #[test]
    fn what_is_planned_hides_secrets_and_names_what_is_unknown() {
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
    fn without_an_event_the_blinded_outputs_say_what_is_secret() {
        let printed = map(json!({"a": "x", "b": "y"}));
        let blinded = map(json!({"a": "[secret]", "b": "y"}));
        assert_eq!(
            shown(&with_blinded(&printed, &blinded)),
            [("a", "\"x\"", true), ("b", "\"y\"", false)]
        );
    }
}
