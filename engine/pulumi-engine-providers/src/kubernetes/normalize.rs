//! Normalizes inputs to the form that the API server returns, for comparisons.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use super::{object, tokens::ResourceKind};

/// Fields that only the server writes.
const READ_ONLY: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Removes fields that the server writes, and moves `stringData` of a Secret to `data`.
#[must_use]
pub(super) fn inputs(mut object: Value) -> Value {
    if let Some(metadata) = object
        .pointer_mut("/metadata")
        .and_then(Value::as_object_mut)
    {
        for key in READ_ONLY {
            metadata.remove(*key);
        }
    }
    match ResourceKind::of(&object) {
        Some(kind) if kind.is("", "Secret") => secret(&mut object),
        Some(kind) if kind.is_definition() => definition(&mut object),
        _ => {}
    }
    object
}

/// The inputs of a live object, for imports.
#[must_use]
pub(super) fn imported(live: &Value) -> Value {
    let mut inputs = inputs(live.clone());
    if let Value::Object(entries) = &mut inputs {
        entries.remove("status");
    }
    let annotations = inputs
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut);
    if let Some(annotations) = annotations {
        annotations.remove("deployment.kubernetes.io/revision");
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        if annotations.is_empty() {
            object::set_metadata(&mut inputs, "annotations", None);
        }
    }
    inputs
}

/// Moves `stringData` to `data` and normalizes base64, as the server does.
fn secret(object: &mut Value) {
    let Value::Object(entries) = object else {
        return;
    };
    if entries.get("stringData").is_some_and(object::has_unknown) {
        return;
    }
    let mut data = match entries.remove("data") {
        Some(Value::Object(data)) => data.into_iter().map(recoded).collect(),
        Some(other) if !other.is_null() => {
            entries.insert("data".to_owned(), other);
            return;
        }
        _ => Map::new(),
    };
    if let Some(Value::Object(texts)) = entries.get("stringData") {
        data.extend(texts.iter().filter_map(|(key, text)| {
            let encoded = BASE64_STANDARD.encode(text.as_str()?);
            Some((key.clone(), Value::String(encoded)))
        }));
        entries.remove("stringData");
    }
    if !data.is_empty() {
        entries.insert("data".to_owned(), Value::Object(data));
    }
}

fn recoded((key, value): (String, Value)) -> (String, Value) {
    let bytes = value.as_str().and_then(|text| {
        let text: String = text.split_whitespace().collect();
        BASE64_STANDARD.decode(text).ok()
    });
    match bytes {
        Some(bytes) => (key, Value::String(BASE64_STANDARD.encode(bytes))),
        None => (key, value),
    }
}

fn definition(object: &mut Value) {
    if let Value::Object(entries) = object {
        entries.remove("status");
    }
    let spec = object.pointer_mut("/spec").and_then(Value::as_object_mut);
    if let Some(spec) = spec
        && spec.get("preserveUnknownFields") == Some(&Value::Bool(false))
    {
        spec.remove("preserveUnknownFields");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn normalize_string_data_becomes_data() {
        let cases = [
            (
                json!({"stringData": {"a": "x"}}),
                json!({"data": {"a": "eA=="}}),
            ),
            (
                json!({"stringData": {"a": "x"}, "data": {"a": "eQ==", "b": "eg=="}}),
                json!({"data": {"a": "eA==", "b": "eg=="}}),
            ),
            (
                json!({"data": {"a": "eA==\n"}}),
                json!({"data": {"a": "eA=="}}),
            ),
            (
                json!({"data": {"a": "no base64!"}}),
                json!({"data": {"a": "no base64!"}}),
            ),
            (json!({"type": "Opaque"}), json!({"type": "Opaque"})),
            (
                json!({"stringData": {"a": pulumi_engine_model::property::UNKNOWN}}),
                json!({"stringData": {"a": pulumi_engine_model::property::UNKNOWN}}),
            ),
            (
                json!({"data": pulumi_engine_model::property::UNKNOWN}),
                json!({"data": pulumi_engine_model::property::UNKNOWN}),
            ),
        ];
        for (given, expected) in cases {
            let with_kind = |mut value: Value| {
                value["apiVersion"] = json!("v1");
                value["kind"] = json!("Secret");
                value
            };
            assert_eq!(inputs(with_kind(given)), with_kind(expected));
        }
    }

    #[test]
    fn normalize_removes_server_fields() {
        let given = json!({"metadata": {"name": "a", "uid": "1", "resourceVersion": "2", "managedFields": []}});
        assert_eq!(inputs(given), json!({"metadata": {"name": "a"}}));
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"preserveUnknownFields": false, "group": "g"}, "status": {},
        });
        assert_eq!(inputs(crd)["spec"], json!({"group": "g"}));
    }

    #[test]
    fn import_inputs_omit_server_fields() {
        let live = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "n", "uid": "1", "generation": 3,
                "annotations": {"deployment.kubernetes.io/revision": "4"}},
            "spec": {"replicas": 2}, "status": {"replicas": 2},
        });
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "n"}, "spec": {"replicas": 2},
        });
        assert_eq!(imported(&live), expected);
    }
}
