//! Field ownership of server-side apply.

use serde_json::{Map, Value, json};

use super::{compare, object};

/// Managers whose fields are taken over: those of Pulumi's provider, and `kubectl`.
const FORERUNNERS: &[(&str, &[&str])] = &[
    ("kubectl", &["Apply", "Update"]),
    ("before-first-apply", &["Update"]),
    ("pulumi-kubernetes", &["Update"]),
    ("pulumi-resource-kubernetes", &["Update"]),
];

/// Whether a manager has applied the object before.
#[must_use]
pub(super) fn has_applied(live: &Value, manager: &str) -> bool {
    object::list(live, "/metadata/managedFields")
        .iter()
        .any(|entry| is(entry, manager, "Apply"))
}

fn is(entry: &Value, manager: &str, operation: &str) -> bool {
    object::text(entry, "/manager") == Some(manager)
        && object::text(entry, "/operation") == Some(operation)
}

/// Whether the entry is for a subresource, such as the status.
fn is_forerunner(entry: &Value, manager: &str) -> bool {
    let name = object::text(entry, "/manager").unwrap_or_default();
    let operation = object::text(entry, "/operation").unwrap_or_default();
    object::text(entry, "/subresource").is_none()
        && !is(entry, manager, "Apply")
        && FORERUNNERS
            .iter()
            .any(|(prefix, operations)| name.starts_with(prefix) && operations.contains(&operation))
}

/// The managed fields after taking over those of earlier managers; none if there are none.
#[must_use]
pub(super) fn taken_over(live: &Value, manager: &str) -> Option<Value> {
    let entries = object::list(live, "/metadata/managedFields");
    let (old, mut others): (Vec<_>, Vec<_>) = entries
        .iter()
        .cloned()
        .partition(|entry| is_forerunner(entry, manager));
    if old.is_empty() {
        return None;
    }
    let position = others.iter().position(|entry| is(entry, manager, "Apply"));
    let mut own = position.map_or_else(
        || json!({ "manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {} }),
        |position| others.remove(position),
    );
    for entry in &old {
        if let (Some(api_version), Value::Object(own)) = (entry.get("apiVersion"), &mut own) {
            own.entry("apiVersion")
                .or_insert_with(|| api_version.clone());
        }
        if let (Some(own), Some(fields)) = (own.get_mut("fieldsV1"), entry.get("fieldsV1")) {
            merge(own, fields);
        }
    }
    others.push(own);
    Some(Value::Array(others))
}

fn merge(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else {
        return;
    };
    for (key, value) in from {
        merge(
            into.entry(key.clone())
                .or_insert_with(|| Value::Object(Map::new())),
            value,
        );
    }
}

/// Whether a manager owns a field or a part of it.
fn owns(live: &Value, path: &str, wanted: impl Fn(&str) -> bool) -> bool {
    object::list(live, "/metadata/managedFields")
        .iter()
        .filter(|entry| object::text(entry, "/manager").is_some_and(&wanted))
        .filter_map(|entry| entry.get("fieldsV1"))
        .any(|fields| {
            compare::steps(path)
                .iter()
                .try_fold(fields, |fields, step| fields.get(format!("f:{step}")))
                .is_some()
        })
}

/// The inputs with live values for `ignoreChanges`. Fields that only others own are removed, so
/// that applying does not take ownership of them.
#[must_use]
pub(super) fn without_ignored(
    mut inputs: Value,
    live: &Value,
    ignored: &[String],
    manager: &str,
) -> Value {
    for path in ignored {
        let others_only =
            owns(live, path, |name| name != manager) && !owns(live, path, |name| name == manager);
        let value = if others_only {
            None
        } else {
            compare::at(live, path).cloned()
        };
        if others_only || value.is_some() {
            set(&mut inputs, &compare::steps(path), value);
        }
    }
    inputs
}

/// Sets a value that exists or whose parent map exists. Without a value, removes it.
fn set(target: &mut Value, steps: &[String], value: Option<Value>) {
    let Some((last, outer)) = steps.split_last() else {
        return;
    };
    let container = outer.iter().try_fold(target, |value, step| match value {
        Value::Array(values) => values.get_mut(step.parse::<usize>().ok()?),
        other => other.get_mut(step),
    });
    match (container, value) {
        (Some(Value::Object(entries)), Some(value)) => {
            entries.insert(last.clone(), value);
        }
        (Some(Value::Object(entries)), None) => {
            entries.remove(last);
        }
        _ => {}
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "cases are values")]
mod tests {
    use super::*;

    fn live(entries: Value) -> Value {
        json!({"metadata": {"name": "a", "managedFields": entries}, "spec": {"replicas": 5}})
    }

    fn entry(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "fieldsV1": fields})
    }

    #[test]
    fn ownership_takes_over_earlier_managers() {
        let object = live(json!([
            entry("kubectl-edit", "Update", json!({"f:data": {"f:a": {}}})),
            entry(
                "pulumi-kubernetes",
                "Update",
                json!({"f:data": {"f:b": {}}})
            ),
            entry("me", "Apply", json!({"f:data": {"f:c": {}}})),
            entry("controller", "Update", json!({"f:data": {"f:d": {}}})),
        ]));
        let owners = taken_over(&object, "me").unwrap();
        let expected = json!([
            entry("controller", "Update", json!({"f:data": {"f:d": {}}})),
            entry(
                "me",
                "Apply",
                json!({"f:data": {"f:a": {}, "f:b": {}, "f:c": {}}})
            ),
        ]);
        assert_eq!(owners, expected);
    }

    #[test]
    fn ownership_keeps_other_managers() {
        let cases = [
            json!([entry("me", "Apply", json!({}))]),
            json!([entry("controller", "Update", json!({}))]),
            json!([entry("argocd", "Apply", json!({}))]),
            json!([{"manager": "kubectl", "operation": "Update", "subresource": "status", "fieldsV1": {}}]),
            json!([entry("pulumi-kubernetes-0123abcd", "Apply", json!({}))]),
            json!([]),
        ];
        for entries in cases {
            assert_eq!(taken_over(&live(entries.clone()), "me"), None, "{entries}");
        }
    }

    #[test]
    fn ownership_detects_earlier_apply() {
        let object = live(json!([
            entry("me", "Apply", json!({})),
            entry("you", "Update", json!({}))
        ]));
        assert!(has_applied(&object, "me"));
        assert!(!has_applied(&object, "you"));
    }

    #[test]
    fn ignored_fields_of_others_are_removed() {
        let fields = json!({"f:spec": {"f:replicas": {}}});
        let inputs = json!({"spec": {"replicas": 1, "paused": true}});
        let cases = [
            (
                json!([entry("scaler", "Update", fields.clone())]),
                json!({"spec": {"paused": true}}),
            ),
            (
                json!([entry("me", "Apply", fields.clone())]),
                json!({"spec": {"replicas": 5, "paused": true}}),
            ),
            (
                json!([
                    entry("me", "Apply", fields.clone()),
                    entry("scaler", "Update", fields.clone())
                ]),
                json!({"spec": {"replicas": 5, "paused": true}}),
            ),
            (json!([]), json!({"spec": {"replicas": 5, "paused": true}})),
        ];
        for (entries, expected) in cases {
            let ignored = ["spec.replicas".to_owned()];
            assert_eq!(
                without_ignored(inputs.clone(), &live(entries), &ignored, "me"),
                expected
            );
        }
        let unset = without_ignored(
            inputs.clone(),
            &live(json!([])),
            &["spec.other".to_owned()],
            "me",
        );
        assert_eq!(unset, inputs);
    }
}
