//! The differences between a live object and inputs, by path.
//!
//! The server adds fields that no program sets. So the live object is first reduced to the fields
//! of its old inputs: fields that others add are not a difference, and fields that others change
//! are.

use std::collections::BTreeMap;

use pulumi_engine_model::property::UNKNOWN;
use serde_json::{Map, Value};

use crate::ChangeKind;

/// The fields of a live object that are in the inputs.
#[must_use]
pub(super) fn pruned(live: &Value, inputs: &Value) -> Value {
    match (live, inputs) {
        (Value::Object(live), Value::Object(inputs)) => Value::Object(
            live.iter()
                .filter_map(|(key, value)| Some((key.clone(), pruned(value, inputs.get(key)?))))
                .collect(),
        ),
        (Value::Array(live), Value::Array(inputs)) => live
            .iter()
            .zip(inputs)
            .map(|(live, input)| pruned(live, input))
            .collect(),
        (live, _) => live.clone(),
    }
}

/// The paths at which two values differ, and whether they require a replacement.
#[must_use]
pub(super) fn changes(
    old: &Value,
    new: &Value,
    force_new: &[&str],
) -> BTreeMap<String, ChangeKind> {
    let mut walk = Walk {
        force_new,
        changes: BTreeMap::new(),
    };
    walk.compare(&Path::default(), Some(old), Some(new));
    walk.changes
}

struct Walk<'a> {
    force_new: &'a [&'a str],
    changes: BTreeMap<String, ChangeKind>,
}

impl Walk<'_> {
    fn compare(&mut self, path: &Path, old: Option<&Value>, new: Option<&Value>) {
        let (old, new) = (present(old), present(new));
        match (old, new) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => self.maps(path, old, new),
            (Some(Value::Array(old)), Some(Value::Array(new))) => self.lists(path, old, new),
            (Some(old), Some(new)) if equal(old, new) => {}
            (None, None) => {}
            (None, Some(empty)) | (Some(empty), None) if is_empty(empty) => {}
            (old, new) => self.record(path, old, new),
        }
    }

    fn maps(&mut self, path: &Path, old: &Map<String, Value>, new: &Map<String, Value>) {
        let added = new.keys().filter(|key| !old.contains_key(*key));
        for key in old.keys().chain(added) {
            self.compare(&path.key(key), old.get(key), new.get(key));
        }
    }

    fn lists(&mut self, path: &Path, old: &[Value], new: &[Value]) {
        for index in 0..old.len().max(new.len()) {
            self.compare(&path.index(index), old.get(index), new.get(index));
        }
    }

    fn record(&mut self, path: &Path, old: Option<&Value>, new: Option<&Value>) {
        let forces = |field: &&str| path.touches(field, [old, new]);
        let kind = if self.force_new.iter().any(forces) {
            ChangeKind::Replace
        } else {
            ChangeKind::Update
        };
        self.changes.insert(path.shown.clone(), kind);
    }
}

/// Treats `null` as absent.
fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

/// Treats empty values as absent, as the server does.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(entries) => entries.is_empty(),
        Value::Array(values) => values.is_empty(),
        _ => false,
    }
}

fn equal(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Number(old), Value::Number(new)) => old == new || old.as_f64() == new.as_f64(),
        _ => old == new,
    }
}

/// Whether a path equals another or is below it.
#[must_use]
pub(super) fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The value at a path as [`changes`] gives it.
#[must_use]
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    steps(path)
        .into_iter()
        .try_fold(value, |value, step| match value {
            Value::Array(values) => values.get(step.parse::<usize>().ok()?),
            other => other.get(&step),
        })
}

/// The names in a path: `a["b.c"][0]` has `a`, `b.c` and `0`.
#[must_use]
pub(super) fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (step, further) = if let Some(quoted) = rest.strip_prefix("[\"") {
            quoted.split_once("\"]").unwrap_or((quoted, ""))
        } else if let Some(index) = rest.strip_prefix('[') {
            index.split_once(']').unwrap_or((index, ""))
        } else {
            let plain = rest.strip_prefix('.').unwrap_or(rest);
            plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
        };
        if !step.is_empty() {
            steps.push(step.replace("\\\"", "\""));
        }
        rest = further;
    }
    steps
}

/// The current path, for display and for the table of fields.
#[derive(Default)]
struct Path {
    shown: String,
    /// Without indices, as in the table.
    plain: String,
}

impl Path {
    fn key(&self, key: &str) -> Self {
        let shown = if key.contains(['.', '"', '[', ']']) {
            format!("{}[\"{}\"]", self.shown, key.replace('"', "\\\""))
        } else if self.shown.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.shown)
        };
        let dot = if self.plain.is_empty() { "" } else { "." };
        Self {
            shown,
            plain: format!("{}{dot}{key}", self.plain),
        }
    }

    fn index(&self, index: usize) -> Self {
        Self {
            shown: format!("{}[{index}]", self.shown),
            plain: self.plain.clone(),
        }
    }

    /// Whether a change at this path changes a field: it is inside of the field, or the field is
    /// inside of an added or removed value. An unknown value counts as unchanged.
    fn touches(&self, field: &str, values: [Option<&Value>; 2]) -> bool {
        if is_within(&self.plain, field) {
            return true;
        }
        if values.contains(&Some(&Value::String(UNKNOWN.to_owned()))) {
            return false;
        }
        let inner = field.strip_prefix(&self.plain).and_then(|rest| {
            if self.plain.is_empty() {
                Some(rest)
            } else {
                rest.strip_prefix('.')
            }
        });
        inner.is_some_and(|inner| {
            values
                .iter()
                .flatten()
                .any(|value| at(value, inner).is_some())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn compare_reduces_live_object_to_inputs() {
        let cases = [
            (json!({"a": 1, "b": 2}), json!({"a": 9}), json!({"a": 1})),
            (
                json!({"a": {"x": 1, "y": 2}}),
                json!({"a": {"x": 0}}),
                json!({"a": {"x": 1}}),
            ),
            (
                json!({"l": [{"n": 1, "d": 2}, {"n": 3}]}),
                json!({"l": [{"n": 0}]}),
                json!({"l": [{"n": 1}]}),
            ),
            (
                json!({"l": ["injected"]}),
                json!({"l": []}),
                json!({"l": []}),
            ),
            (
                json!({"a": {"x": 1}}),
                json!({"a": "text"}),
                json!({"a": {"x": 1}}),
            ),
            (json!({}), json!({"gone": 1}), json!({})),
        ];
        for (live, inputs, expected) in cases {
            assert_eq!(pruned(&live, &inputs), expected);
        }
    }

    #[test]
    fn compare_reports_paths() {
        let cases = [
            (json!({"a": 1}), json!({"a": 1}), vec![]),
            (json!({"a": 1}), json!({"a": 1.0}), vec![]),
            (json!({"a": 1}), json!({"a": 2}), vec!["a"]),
            (
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 1, "c": 2}}),
                vec!["a.c"],
            ),
            (json!({"a": {"b": 1}}), json!({"a": {}}), vec!["a.b"]),
            (
                json!({"l": [1, 2]}),
                json!({"l": [1, 3, 4]}),
                vec!["l[1]", "l[2]"],
            ),
            (
                json!({"l": [{"n": 1}]}),
                json!({"l": [{"n": 2}]}),
                vec!["l[0].n"],
            ),
            (
                json!({"m": {"a.b/c": "1"}}),
                json!({"m": {"a.b/c": "2"}}),
                vec!["m[\"a.b/c\"]"],
            ),
            (json!({"a": 1}), json!({"a": "1"}), vec!["a"]),
            // equivalent empty values
            (json!({}), json!({"a": null, "m": {}, "l": []}), vec![]),
            (json!({"a": null}), json!({}), vec![]),
        ];
        for (old, new, expected) in cases {
            let found: Vec<_> = changes(&old, &new, &[]).into_keys().collect();
            assert_eq!(found, expected, "{old} {new}");
        }
    }

    #[test]
    fn compare_marks_immutable_fields() {
        let fixed = ["spec.selector", "spec.containers.image", "metadata.name"];
        let cases = [
            (
                json!({"spec": {"selector": {"a": 1}}}),
                json!({"spec": {"selector": {"a": 2}}}),
                "spec.selector.a",
                true,
            ),
            (
                json!({"spec": {"replicas": 1}}),
                json!({"spec": {"replicas": 2}}),
                "spec.replicas",
                false,
            ),
            (
                json!({"spec": {"selectors": 1}}),
                json!({"spec": {"selectors": 2}}),
                "spec.selectors",
                false,
            ),
            (json!({}), json!({"spec": {"selector": 1}}), "spec", true),
            (json!({"spec": {"selector": 1}}), json!({}), "spec", true),
            (json!({}), json!({"spec": {"replicas": 1}}), "spec", false),
            (
                json!({"spec": {"selector": 1}}),
                json!({"spec": UNKNOWN}),
                "spec",
                false,
            ),
            (
                json!({"spec": {"selector": 1}}),
                json!({"spec": {"selector": UNKNOWN}}),
                "spec.selector",
                true,
            ),
            (
                json!({"spec": {"containers": [{"image": "a"}]}}),
                json!({"spec": {"containers": [{"image": "b"}]}}),
                "spec.containers[0].image",
                true,
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}]}}),
                json!({"spec": {"containers": [{"name": "b"}]}}),
                "spec.containers[0].name",
                false,
            ),
        ];
        for (old, new, path, replaces) in cases {
            let found = changes(&old, &new, &fixed);
            let expected = if replaces {
                ChangeKind::Replace
            } else {
                ChangeKind::Update
            };
            assert_eq!(
                found,
                BTreeMap::from([(path.to_owned(), expected)]),
                "{old} {new}"
            );
        }
    }

    #[test]
    fn compare_paths_resolve_to_values() {
        let value = json!({"m": {"a.b": [10, {"x": 1}]}});
        assert_eq!(at(&value, "m[\"a.b\"][1].x"), Some(&json!(1)));
        assert_eq!(at(&value, "m[\"a.b\"][0]"), Some(&json!(10)));
        assert_eq!(at(&value, "m.none"), None);
        assert_eq!(at(&value, ""), Some(&value));
    }

    #[test]
    fn compare_path_prefix_by_whole_names() {
        for (path, outer, expected) in [
            ("spec.replicas", "spec", true),
            ("spec[0]", "spec", true),
            ("spec", "spec", true),
            ("specs", "spec", false),
            ("spec", "spec.replicas", false),
        ] {
            assert_eq!(is_within(path, outer), expected, "{path} {outer}");
        }
    }
}
