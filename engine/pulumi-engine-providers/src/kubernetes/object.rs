//! Converts between API objects in JSON and properties of a resource: secrets, unknown values,
//! outputs.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use pulumi_engine_model::property::{BLINDED, Properties, Property, UNKNOWN};

/// Shorter secrets are not removed from messages, which would contain them by chance.
const SHORTEST_SECRET: usize = 3;

/// Pulumi's own outputs, beside those of the object.
pub const INPUTS: &str = "__inputs";
/// The API version with which the object was created.
pub const INITIAL_API_VERSION: &str = "__initialApiVersion";
/// The field manager.
pub const FIELD_MANAGER: &str = "__fieldManager";

/// Converts inputs to an object, with secrets in clear.
#[must_use]
pub fn from_properties(properties: &Properties) -> Value {
    Value::Object(
        properties
            .iter()
            .map(|(key, value)| (dashed(key), from_property(value)))
            .collect(),
    )
}

fn from_property(property: &Property) -> Value {
    match property {
        Property::Null => Value::Null,
        Property::Bool(value) => Value::Bool(*value),
        Property::Number(value) => Value::Number(value.clone()),
        Property::String(value) => Value::String(value.clone()),
        Property::List(values) => values.iter().map(from_property).collect(),
        Property::Object(entries) => from_properties(entries),
        Property::Secret(inner) => from_property(inner),
        Property::Unknown => Value::String(UNKNOWN.to_owned()),
    }
}

#[must_use]
pub fn to_properties(object: &Value) -> Properties {
    let Value::Object(entries) = object else {
        return Properties::new();
    };
    entries
        .iter()
        .map(|(key, value)| (underscored(key), to_property(value)))
        .collect()
}

fn to_property(value: &Value) -> Property {
    match value {
        Value::String(text) if text == UNKNOWN => Property::Unknown,
        Value::Object(_) => Property::Object(to_properties(value)),
        Value::Array(values) => Property::List(values.iter().map(to_property).collect()),
        other => Property::from_json(other.clone()),
    }
}

/// Pulumi's names of these fields have no dashes.
fn dashed(key: &str) -> String {
    if key.starts_with("x_kubernetes_") {
        key.replace('_', "-")
    } else {
        key.to_owned()
    }
}

fn underscored(key: &str) -> String {
    if key.starts_with("x-kubernetes-") {
        key.replace('-', "_")
    } else {
        key.to_owned()
    }
}

/// Whether a part of it is unknown.
#[must_use]
pub fn has_unknown(object: &Value) -> bool {
    match object {
        Value::String(text) => text == UNKNOWN,
        Value::Array(values) => values.iter().any(has_unknown),
        Value::Object(entries) => entries.values().any(has_unknown),
        _ => false,
    }
}

/// Marks as secret what is secret in the inputs, and the data of Secrets.
///
/// The order of lists may change, so one secret makes the whole list secret.
pub fn mark_secrets(outputs: &mut Properties, inputs: &Properties) {
    if outputs.get("kind") == Some(&Property::String("Secret".to_owned())) {
        for key in ["data", "stringData"] {
            if let Some(value) = outputs.remove(key) {
                outputs.insert(key.to_owned(), value.into_secret());
            }
        }
        return;
    }
    for (key, input) in inputs {
        let Some(output) = outputs.get_mut(key) else {
            continue;
        };
        if let (Property::Object(output), Property::Object(input)) = (&mut *output, input) {
            mark_secrets(output, input);
        } else if input.contains_secret() {
            *output = std::mem::replace(output, Property::Null).into_secret();
        }
    }
}

/// Removes secret inputs from a message of the server, which may quote them.
#[must_use]
pub fn without_secrets(mut text: String, inputs: &Properties) -> String {
    let mut secrets = Vec::new();
    for value in inputs.values() {
        collect_secrets(value, false, &mut secrets);
    }
    // a short secret may be part of a longer one
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    for secret in secrets
        .iter()
        .filter(|secret| secret.len() >= SHORTEST_SECRET)
    {
        text = text.replace(secret, BLINDED);
    }
    text
}

fn collect_secrets(value: &Property, is_secret: bool, secrets: &mut Vec<String>) {
    match value {
        Property::Secret(inner) => collect_secrets(inner, true, secrets),
        Property::List(values) => values
            .iter()
            .for_each(|value| collect_secrets(value, is_secret, secrets)),
        Property::Object(entries) => entries
            .values()
            .for_each(|value| collect_secrets(value, is_secret, secrets)),
        Property::String(text) if is_secret => {
            let decoded = BASE64_STANDARD.decode(text).ok();
            secrets.extend(decoded.and_then(|bytes| String::from_utf8(bytes).ok()));
            secrets.push(text.clone());
        }
        Property::Number(number) if is_secret => secrets.push(number.to_string()),
        _ => {}
    }
}

/// The outputs of an object: the object, its inputs and its field manager.
#[must_use]
pub fn checkpoint(
    live: &Value,
    inputs: &Value,
    secrets: &Properties,
    initial_api_version: &str,
    manager: &str,
) -> Properties {
    let mut outputs = to_properties(live);
    let mut remembered = to_properties(inputs);
    mark_secrets(&mut outputs, secrets);
    mark_secrets(&mut remembered, secrets);
    outputs.insert(INPUTS.to_owned(), Property::Object(remembered));
    let text = |text: &str| Property::String(text.to_owned());
    outputs.insert(INITIAL_API_VERSION.to_owned(), text(initial_api_version));
    outputs.insert(FIELD_MANAGER.to_owned(), text(manager));
    outputs
}

/// The object in outputs, without Pulumi's own outputs.
#[must_use]
pub fn live(outputs: &Properties) -> Value {
    let mut object = from_properties(outputs);
    if let Value::Object(entries) = &mut object {
        for key in [INPUTS, INITIAL_API_VERSION, FIELD_MANAGER, "id", "urn"] {
            entries.remove(key);
        }
    }
    object
}

/// One of Pulumi's own outputs.
#[must_use]
pub fn own_text<'a>(outputs: &'a Properties, key: &str) -> Option<&'a str> {
    match outputs.get(key) {
        Some(Property::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// A string by JSON pointer; none if it is empty.
#[must_use]
pub fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// An integer by JSON pointer.
#[must_use]
pub fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// A list by JSON pointer; empty if there is none.
#[must_use]
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The object's name.
#[must_use]
pub fn name(object: &Value) -> &str {
    text(object, "/metadata/name").unwrap_or_default()
}

/// The object's namespace.
#[must_use]
pub fn namespace(object: &Value) -> Option<&str> {
    text(object, "/metadata/namespace")
}

#[must_use]
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// Whether an annotation says `true`.
#[must_use]
pub fn is_annotated(object: &Value, key: &str) -> bool {
    annotation(object, key) == Some("true")
}

/// Sets or removes a field of the metadata.
pub fn set_metadata(object: &mut Value, key: &str, value: Option<Value>) {
    let Value::Object(entries) = object else {
        return;
    };
    let metadata = entries
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        match value {
            Some(value) => metadata.insert(key.to_owned(), value),
            None => metadata.remove(key),
        };
    }
}

/// The id of an object: `namespace/name`, or `name`.
#[must_use]
pub fn id(object: &Value) -> String {
    match namespace(object) {
        Some(namespace) => format!("{namespace}/{}", name(object)),
        None => name(object).to_owned(),
    }
}

/// Namespace and name in an id.
#[must_use]
pub fn parse_id(id: &str) -> (Option<&str>, &str) {
    match id.split_once('/') {
        Some((namespace, name)) => (Some(namespace).filter(|it| !it.is_empty()), name),
        None => (None, id),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn properties(value: Value) -> Properties {
        let Property::Object(entries) = Property::from_json(value) else {
            panic!("no object");
        };
        entries
    }

    #[test]
    fn secret_object_data_is_always_secret() {
        let mut outputs =
            properties(json!({"kind": "Secret", "data": {"a": "eA=="}, "type": "Opaque"}));
        mark_secrets(&mut outputs, &Properties::new());
        assert!(outputs["data"].contains_secret());
        assert!(!outputs["type"].contains_secret());
    }

    #[test]
    fn secret_input_marks_only_its_output() {
        let mut inputs = properties(json!({"spec": {"open": 1}, "kind": "Widget"}));
        let Some(Property::Object(spec)) = inputs.get_mut("spec") else {
            panic!("no spec");
        };
        spec.insert(
            "token".into(),
            Property::String("hush".into()).into_secret(),
        );
        spec.insert(
            "list".into(),
            Property::List(vec![Property::String("hush".into()).into_secret()]),
        );
        let live = json!({"kind": "Widget", "spec": {"open": 1, "token": "hush", "list": ["hush", "more"]}});
        let outputs = checkpoint(
            &live,
            &from_properties(&inputs),
            &inputs,
            "example.com/v1",
            "me",
        );
        let shown = format!("{outputs:?}");
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.contains(r#""open": 1"#), "{shown}");
        // the list as a whole, because the server may reorder it
        assert!(!shown.contains("more"), "{shown}");
    }

    #[test]
    fn server_message_hides_secrets() {
        let mut inputs =
            properties(json!({"kind": "Secret", "data": {"a": "aHVzaC1odXNo", "b": 12345}}));
        mark_secrets(&mut inputs, &Properties::new());
        let text = "data.a: wrong aHVzaC1odXNo, that is hush-hush; data.b: got 12345; kind Secret"
            .to_owned();
        let expected =
            "data.a: wrong [secret], that is [secret]; data.b: got [secret]; kind Secret";
        assert_eq!(without_secrets(text, &inputs), expected);
    }

    #[test]
    fn outputs_round_trip_to_object() {
        let live_object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let inputs = json!({"kind": "ConfigMap", "data": {"k": "v"}});
        let outputs = checkpoint(
            &live_object,
            &inputs,
            &Properties::new(),
            "v1",
            "pulumi-kubernetes-1",
        );
        assert_eq!(live(&outputs), live_object);
        assert_eq!(
            own_text(&outputs, FIELD_MANAGER),
            Some("pulumi-kubernetes-1")
        );
        assert_eq!(own_text(&outputs, INITIAL_API_VERSION), Some("v1"));
        let Some(Property::Object(remembered)) = outputs.get(INPUTS) else {
            panic!("no inputs");
        };
        assert_eq!(from_properties(remembered), inputs);
    }

    #[test]
    fn fields_with_dashes_have_pulumi_names() {
        let program = properties(json!({"schema": {"x_kubernetes_preserve_unknown_fields": true}}));
        let sent = from_properties(&program);
        assert_eq!(
            sent,
            json!({"schema": {"x-kubernetes-preserve-unknown-fields": true}})
        );
        assert_eq!(to_properties(&sent), program);
    }

    #[test]
    fn object_id_has_namespace_if_any() {
        let cases = [
            (
                json!({"metadata": {"name": "a", "namespace": "n"}}),
                "n/a",
                (Some("n"), "a"),
            ),
            (json!({"metadata": {"name": "a"}}), "a", (None, "a")),
        ];
        for (object, expected, parts) in cases {
            assert_eq!(id(&object), expected);
            assert_eq!(parse_id(expected), parts);
        }
    }

    #[test]
    fn unknown_parts_round_trip() {
        let inputs = Properties::from([(
            "data".to_owned(),
            Property::Object(Properties::from([("k".to_owned(), Property::Unknown)])),
        )]);
        let object = from_properties(&inputs);
        assert!(has_unknown(&object));
        assert_eq!(to_properties(&object), inputs);
        assert!(!has_unknown(&json!({"data": ["x", 1, null]})));
    }
}
