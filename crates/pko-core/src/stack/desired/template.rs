//! Templates: merged over the operator's objects like a strategic merge patch. They change neither
//! the owner nor the status.

use pko_api::{Decoded, JsonObject, StoredKind};
use serde::Serialize;
use serde_json::{Value, json};

use crate::merge::{self, MergeSchema};

/// The fields of an object's metadata that a template may set.
const METADATA: [&str; 4] = ["name", "labels", "annotations", "finalizers"];

/// A template of a Stack.
pub(super) struct Template {
    /// The field of the Stack that contains it, for messages.
    field: &'static str,
    kind: &'static MergeSchema,
    /// The part of it that is merged.
    patch: Value,
}

impl Template {
    pub(super) fn new(
        field: &'static str,
        kind: &'static MergeSchema,
        metadata: Option<&JsonObject>,
        spec: Option<Value>,
    ) -> Self {
        let metadata = metadata.into_iter().flatten();
        let metadata: JsonObject = metadata
            .filter(|(name, _)| METADATA.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let mut patch = json!({ "metadata": metadata });
        if let (Some(spec), Some(patch)) = (spec, patch.as_object_mut()) {
            patch.insert("spec".to_owned(), spec);
        }
        Self { field, kind, patch }
    }

    /// Merges the template over the object.
    ///
    /// # Errors
    /// The field of the template that can't be merged.
    pub(super) fn merge_over(&self, object: &impl Serialize) -> Result<Value, String> {
        let object = serde_json::to_value(object).map_err(|error| self.problem(error))?;
        self.merge(object, &self.patch)
    }

    /// Merges a part of the template over a part of the object.
    ///
    /// # Errors
    /// The field of the template that can't be merged.
    pub(super) fn merge(&self, object: Value, patch: &Value) -> Result<Value, String> {
        merge::merge(self.kind, object, patch).map_err(|error| self.problem(error))
    }

    /// Decodes a merged object.
    ///
    /// # Errors
    /// The field that the template has made invalid.
    pub(super) fn decode<K: StoredKind + Clone>(&self, object: Value) -> Result<K, String> {
        let decoded = Decoded::<K>::from_value(object).map_err(|error| self.problem(error))?;
        let decoded = decoded.as_result();
        decoded
            .cloned()
            .map_err(|undecodable| self.problem(&undecodable.error))
    }

    /// The problem, with the path of the field in the Stack.
    pub(super) fn problem(&self, problem: impl std::fmt::Display) -> String {
        format!("{}.{problem}", self.field)
    }
}
