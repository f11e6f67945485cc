//! Kubernetes' strategic merge patch: merges a template over a generated object, as `kubectl patch`
//! and upstream do.
//!
//! Objects merge deeply, null removes a field, most lists are replaced, and some lists merge by a
//! key of their items. The [`MergeSchema`] defines these lists and keys. Directives (`$patch` and
//! the like) are not supported: the schema of a template prunes them first.
//!
//! The merge is hand-written, in 440 lines with its schemas. kube leaves strategic merges to the
//! API server, and `json-patch` implements only RFC 6902 and RFC 7386, which replace every list. A
//! test compares it with Kubernetes' own code.

mod field_path;
mod list;
mod schema;
mod schemas;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use field_path::FieldPath;
pub use schema::MergeSchema;
use schema::{Lists, MergeField};

/// A template that can't be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("{list}: an item lacks the merge key `{key}`; add it")]
    NoKey { list: String, key: &'static str },
    #[error("{list}: an item is not an object")]
    NotAnObject { list: String },
}

/// Merges the patch over the base.
pub fn merge(kind: &'static MergeSchema, base: Value, patch: &Value) -> Result<Value, MergeError> {
    merge_value(&MergeField::object("", kind), &FieldPath::ROOT, base, patch)
}

fn merge_value(
    field: &MergeField,
    field_path: &FieldPath<'_>,
    base: Value,
    patch: &Value,
) -> Result<Value, MergeError> {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            merge_object(field.kind, field_path, base, patch).map(Value::Object)
        }
        (Value::Array(base), Value::Array(patch)) => match field.lists {
            Lists::Replaced => Ok(patch.clone().into()),
            Lists::Union => Ok(list::union(base, patch).into()),
            Lists::ByKey(key) => list::merge(field, key, field_path, base, patch).map(Value::Array),
        },
        // The types differ, so the patch's nulls remove nothing.
        (_, patch) => Ok(without_nulls(patch)),
    }
}

fn merge_object(
    kind: Option<&'static MergeSchema>,
    field_path: &FieldPath<'_>,
    mut base: Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<Map<String, Value>, MergeError> {
    for (name, new) in patch {
        let old = base.remove(name);
        if new.is_null() {
            continue;
        }
        let merged = match old {
            Some(old) => {
                let field = kind.map_or(MergeField::PLAIN, |kind| kind.field(name));
                merge_value(&field, &field_path.field(name), old, new)?
            }
            None => without_nulls(new),
        };
        base.insert(name.clone(), merged);
    }
    Ok(base)
}

/// Drops nulls, which only remove fields of a base.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
