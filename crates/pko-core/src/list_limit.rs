//! Limits lists in specs and templates. The API server stores objects of more than a megabyte with
//! a hundred thousand entries. Each entry costs the operator and the API server many times its
//! size.

use std::fmt;

use serde_json::Value;

/// Far more than a pod can start with.
pub(crate) const MAX_ENTRIES: usize = 1_000;

/// A list or a map with too many entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongList {
    pub(crate) field: String,
    pub(crate) entries: usize,
}

impl fmt::Display for LongList {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.field, self.problem())
    }
}

impl LongList {
    /// The field, if it has too many entries.
    pub(crate) fn new(field: impl Into<String>, entries: usize) -> Option<Self> {
        (entries > MAX_ENTRIES).then(|| Self {
            field: field.into(),
            entries,
        })
    }

    /// The first list with too many entries in an untyped value.
    pub(crate) fn within(field: &str, value: &Value) -> Option<Self> {
        match value {
            Value::Array(items) => Self::new(field, items.len()).or_else(|| {
                let mut items = items.iter().enumerate();
                items.find_map(|(index, item)| Self::within(&format!("{field}[{index}]"), item))
            }),
            Value::Object(fields) => fields
                .iter()
                // Config values belong to the program.
                .filter(|(name, value)| *name != "value" && is_nested(value))
                .find_map(|(name, value)| Self::within(&format!("{field}.{name}"), value)),
            _ => None,
        }
    }

    /// The problem and the fix.
    pub(crate) fn problem(&self) -> String {
        format!(
            "has {} entries, and at most {MAX_ENTRIES} are supported: remove some, or bring many values in one \
             ConfigMap or Secret",
            self.entries
        )
    }
}

fn is_nested(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(entries: usize) -> Value {
        vec![json!({ "name": "a", "value": "b" }); entries].into()
    }

    #[test]
    fn long_list_is_found_at_any_depth() {
        for (value, field) in [
            (json!({ "spec": { "env": list(20_000) } }), "t.spec.env"),
            (
                json!({ "spec": { "podTemplate": { "spec": { "containers": [
                    { "name": "a" }, { "name": "pulumi", "env": list(MAX_ENTRIES + 1) },
                ] } } } }),
                "t.spec.podTemplate.spec.containers[1].env",
            ),
            (json!([[1], list(MAX_ENTRIES + 1)]), "t[1]"),
        ] {
            let found = LongList::within("t", &value).unwrap();
            assert_eq!(found.field, field);
        }
        for value in [
            json!({ "spec": { "env": list(MAX_ENTRIES) } }),
            json!({ "spec": { "stacks": [{ "config": [{ "key": "a", "value": list(5_000) }] }] } }),
            json!("text"),
        ] {
            assert_eq!(LongList::within("t", &value), None);
        }
    }

    #[test]
    fn long_list_is_reported_with_field_count_and_limit() {
        let found = LongList::new("spec.env", 20_000).unwrap();
        assert_eq!(
            found.to_string(),
            "spec.env has 20000 entries, and at most 1000 are supported: remove some, or bring many values in one \
             ConfigMap or Secret"
        );
        assert_eq!(LongList::new("spec.env", MAX_ENTRIES), None);
    }
}
