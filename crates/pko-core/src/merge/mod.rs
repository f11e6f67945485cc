//! Kubernetes' strategic merge of a template over a generated object: what `kubectl patch` and upstream do.
//!
//! Objects merge deeply, null removes, most lists are replaced, and some lists merge by a key of their
//! items. Which lists and by which key is a fact of the [`MergeSchema`]. Directives (`$patch` and the like) are
//! not followed: the schema of a template prunes them before they reach us.

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
    /// The items of this list are found by a key, and one has none.
    #[error("{list}: an item lacks the merge key `{key}`; add it")]
    NoKey {
        /// The path of the list
        list: String,
        /// The key
        key: &'static str,
    },
    /// The items of this list are found by a key, and one is no object.
    #[error("{list}: an item is not an object")]
    NotAnObject {
        /// The path of the list
        list: String,
    },
}

/// The base with the patch over it.
pub fn merge(kind: &'static MergeSchema, base: Value, patch: &Value) -> Result<Value, MergeError> {
    merge_value(&MergeField::object("", kind), &FieldPath::ROOT, base, patch)
}

fn merge_value(
    field: &MergeField,
    path: &FieldPath<'_>,
    base: Value,
    patch: &Value,
) -> Result<Value, MergeError> {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            merge_object(field.kind, path, base, patch).map(Value::Object)
        }
        (Value::Array(base), Value::Array(patch)) => match field.lists {
            Lists::Replaced => Ok(patch.clone().into()),
            Lists::United => Ok(list::unite(base, patch).into()),
            Lists::ByKey(key) => list::merge(field, key, path, base, patch).map(Value::Array),
        },
        // Of another type, so that the nulls in it have nothing to remove.
        (_, patch) => Ok(without_nulls(patch)),
    }
}

fn merge_object(
    kind: Option<&'static MergeSchema>,
    path: &FieldPath<'_>,
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
                merge_value(&field, &path.field(name), old, new)?
            }
            None => without_nulls(new),
        };
        base.insert(name.clone(), merged);
    }
    Ok(base)
}

/// A null in a patch removes; where there is nothing to remove it says nothing.
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
