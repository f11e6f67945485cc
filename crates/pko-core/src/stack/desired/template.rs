//! Templates: laid over what the operator makes, as Kubernetes' strategic merge does it. Whose the object is, and what
//! became of it, is not theirs to say.

use pko_api::{Decoded, JsonObject, StoredKind};
use serde::Serialize;
use serde_json::{Value, json};

use crate::merge::{self, MergeSchema};

/// What a template may say of an object's metadata.
const METADATA: [&str; 4] = ["name", "labels", "annotations", "finalizers"];

/// A template of a Stack.
pub(super) struct Template {
    /// The field that holds it, for whoever has to mend it.
    field: &'static str,
    kind: &'static MergeSchema,
    /// The part of it that counts.
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

    /// The object with the template over it.
    ///
    /// # Errors
    /// What in the template can't be merged, by its field.
    pub(super) fn over(&self, object: &impl Serialize) -> Result<Value, String> {
        let object = serde_json::to_value(object).map_err(|error| self.problem(error))?;
        self.merged(object, &self.patch)
    }

    /// A part of the object with a part of the template over it.
    ///
    /// # Errors
    /// As for the whole.
    pub(super) fn merged(&self, object: Value, patch: &Value) -> Result<Value, String> {
        merge::merge(self.kind, object, patch).map_err(|error| self.problem(error))
    }

    /// The object as its type.
    ///
    /// # Errors
    /// What the template has made of it that its type does not have, by its field.
    pub(super) fn decoded<K: StoredKind + Clone>(&self, object: Value) -> Result<K, String> {
        let decoded = Decoded::<K>::from_value(object).map_err(|error| self.problem(error))?;
        let decoded = decoded.as_result();
        decoded
            .cloned()
            .map_err(|undecodable| self.problem(&undecodable.error))
    }

    /// What is wrong with it, with the path of the field in the Stack.
    pub(super) fn problem(&self, problem: impl std::fmt::Display) -> String {
        format!("{}.{problem}", self.field)
    }
}
