//! The contents of a namespace as text.

use std::fmt::Write as _;

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::contents::Found;

const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The objects as YAML; events, in order of time, come last.
pub(super) fn text(namespace: &str, found: Vec<Found>) -> String {
    let mut objects: Vec<DynamicObject> = found.into_iter().map(|found| found.object).collect();
    objects.sort_by_key(|object| {
        let kind = kind(object).to_owned();
        (kind == "Event", event_time(object), kind, object.name_any())
    });
    let mut text = format!("# {} objects of namespace {namespace}\n", objects.len());
    for object in objects {
        let yaml =
            serde_saphyr::to_string(&presentable(object)).unwrap_or_else(|error| error.to_string());
        let _ = write!(text, "---\n{yaml}");
    }
    text + "# end of namespace\n"
}

fn kind(object: &DynamicObject) -> &str {
    object
        .types
        .as_ref()
        .map(|types| types.kind.as_str())
        .unwrap_or_default()
}

fn event_time(object: &DynamicObject) -> String {
    let time = |field| {
        object
            .data
            .get(field)
            .and_then(Value::as_str)
            .filter(|_| kind(object) == "Event")
    };
    time("lastTimestamp")
        .or_else(|| time("eventTime"))
        .unwrap_or_default()
        .to_owned()
}

fn presentable(mut object: DynamicObject) -> DynamicObject {
    object.metadata.managed_fields = None;
    if kind(&object) == "Secret" {
        // It repeats the values that are hidden below
        object.annotations_mut().remove(APPLIED);
        for field in ["data", "stringData"] {
            hide(object.data.get_mut(field));
        }
    }
    object
}

fn hide(values: Option<&mut Value>) {
    let values = values.and_then(Value::as_object_mut);
    for value in values.into_iter().flat_map(|values| values.values_mut()) {
        *value = "(hidden)".into();
    }
}

#[cfg(test)]
mod tests {
    use kube::discovery::ApiResource;
    use serde_json::json;

    use super::*;

    fn found(object: Value) -> Found {
        let resource = ApiResource {
            group: String::new(),
            version: "v1".into(),
            api_version: "v1".into(),
            kind: "Any".into(),
            plural: "any".into(),
        };
        Found {
            resource,
            object: serde_json::from_value(object).unwrap(),
        }
    }

    #[test]
    fn dump_hides_secrets_and_sorts_events_last() {
        let event = |name: &str, time: &str| {
            found(json!({
                "apiVersion": "v1", "kind": "Event", "metadata": { "name": name },
                "lastTimestamp": time,
            }))
        };
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "data": { "password": "aHVudGVyMg==" },
            "metadata": {
                "name": "s", "annotations": { APPLIED: "hunter2", "kept": "yes" },
                "managedFields": [{ "manager": "somebody" }],
            },
        });
        let text = text(
            "ns",
            vec![
                event("a", "2026-01-02T00:00:00Z"),
                event("b", "2026-01-01T00:00:00Z"),
                found(secret),
            ],
        );
        let expected = [
            "# 3 objects of namespace ns",
            "---",
            "apiVersion: v1",
            "kind: Secret",
            "metadata:",
            "  annotations:",
            "    kept: \"yes\"",
            "  name: s",
            "data:",
            "  password: (hidden)",
            "---",
            "apiVersion: v1",
            "kind: Event",
        ];
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..expected.len()], expected, "{text}");
        assert!(
            text.find("name: b").unwrap() < text.find("name: a").unwrap(),
            "{text}"
        );
    }
}
