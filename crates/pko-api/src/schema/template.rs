//! The schemas of partial objects: those of the whole ones, with nothing required and nothing filled in.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::structural::{EMBEDDED, for_each_child};
use crate::auto::v1alpha1::{UpdateStatus, WorkspaceSpec, WorkspaceStatus};

/// What a whole object demands and a patch must not.
const DEMANDS: [&str; 11] = [
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

/// Removes demands and descriptions, but not those of Kubernetes' own types: upstream has them, too.
fn relax(schema: &mut Value) {
    let Value::Object(object) = schema else {
        return;
    };
    if object.contains_key(EMBEDDED) {
        return;
    }
    for key in DEMANDS {
        object.remove(key);
    }
    // Said once, where the whole object is described: each CRD has this schema twice.
    object.remove("description");
    for_each_child(object, relax);
}

fn relaxed<T: JsonSchema>() -> Value {
    let mut schema = super::of::<T>();
    relax(&mut schema);
    schema
}

/// A partial Workspace.
pub(crate) fn workspace_template(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "apiVersion": { "type": "string" },
            "kind": { "type": "string" },
            "metadata": metadata(),
            "spec": relaxed::<WorkspaceSpec>(),
            "status": relaxed::<WorkspaceStatus>(),
        },
    })
}

/// The metadata of a partial object.
pub(crate) fn template_metadata(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(metadata()).unwrap_or_default()
}

/// The status of a partial Update, which has no effect.
pub(crate) fn update_template_status(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(relaxed::<UpdateStatus>()).unwrap_or_default()
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
