//! The schemas of partial objects: those of whole objects, without required fields and defaults.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::structural::{EMBEDDED, for_each_child};
use crate::auto::v1alpha1::{UpdateStatus, WorkspaceSpec, WorkspaceStatus};

/// Keys that constrain a whole object and must not constrain a patch.
const CONSTRAINTS: [&str; 11] = [
    "default",
    "enum",
    "maxLength",
    "minLength",
    "minimum",
    "pattern",
    "required",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
];

/// Removes constraints and descriptions. Kubernetes' own types keep their constraints, as
/// upstream's do.
fn relax(schema: &mut Value) {
    let Value::Object(object) = schema else {
        return;
    };
    if object.contains_key(EMBEDDED) {
        return;
    }
    for key in CONSTRAINTS {
        object.remove(key);
    }
    // Each CRD has this schema twice; the whole object's schema has the descriptions.
    object.remove("description");
    for_each_child(object, relax);
}

fn partial_schema<T: JsonSchema>() -> Value {
    let mut schema = super::of::<T>();
    relax(&mut schema);
    schema
}

pub(crate) fn workspace_template(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": metadata(),
            "spec": partial_schema::<WorkspaceSpec>(),
            "status": partial_schema::<WorkspaceStatus>(),
        },
    })
}

pub(crate) fn template_metadata(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(metadata()).unwrap_or_default()
}

/// The status of a partial Update, which has no effect.
pub(crate) fn update_template_status(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(partial_schema::<UpdateStatus>()).unwrap_or_default()
}

fn metadata() -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "object", "additionalProperties": text });
    let integer = json!({ "type": "integer", "format": "int64" });
    let time = json!({ "type": "string", "format": "date-time" });
    let flag = json!({ "type": "boolean" });
    let owner = json!({
        "type": "object",
        "properties": {
            "apiVersion": text, "blockOwnerDeletion": flag, "controller": flag, "kind": text, "name": text, "uid": text,
        },
    });
    json!({
        "type": "object",
        "properties": {
            "annotations": texts,
            "creationTimestamp": time,
            "deletionGracePeriodSeconds": integer,
            "deletionTimestamp": time,
            "finalizers": { "type": "array", "items": text },
            "generateName": text,
            "generation": integer,
            "labels": texts,
            "name": text,
            "namespace": text,
            "ownerReferences": { "type": "array", "items": owner },
            "resourceVersion": text,
            "uid": text,
        },
    })
}
