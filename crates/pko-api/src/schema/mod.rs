//! The parts of the CRDs' schemas that do not follow from a Rust type: untyped values, Kubernetes'
//! own types, and partial objects. Pure.

mod embedded;
mod structural;
mod template;

use schemars::{Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

pub use embedded::CoreTypes;
pub(crate) use embedded::{env, env_from, init_containers, pod_spec, resources, secret_key};
pub use structural::make_structural;
pub(crate) use structural::remove_marks;
pub(crate) use template::{template_metadata, update_template_status, workspace_template};

/// The structural schema of a type: one tree of properties without references.
#[must_use]
pub fn of<T: schemars::JsonSchema>() -> Value {
    let mut generator = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .into_generator();
    let mut schema = T::json_schema(&mut generator).to_value();
    make_structural(&mut schema);
    schema
}

/// A field without a type: the API server stores any value except `null`.
pub(crate) fn untyped(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Any JSON value, including `null`, which the API server silently drops without `nullable`.
pub(crate) fn any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true, "nullable": true })
}

/// A map from names to any JSON value.
pub(crate) fn map_of_any(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": any(generator) })
}

/// A list of any JSON values.
pub(crate) fn list_of_any(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": any(generator) })
}

/// An integer that upstream's schema calls `int32`, whether signed or not.
pub(crate) fn int32(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32" })
}

pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// Kubernetes' conditions, with the rules of its Go type, which its OpenAPI document lacks.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "message": { "type": "string", "maxLength": 32768 },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "type": {
                    "type": "string",
                    "maxLength": 316,
                    "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}

/// The types of a config value in Pulumi YAML, which accepts upper and lower case.
pub(crate) fn config_type(_: &mut SchemaGenerator) -> Schema {
    let names = [
        "String", "Number", "Integer", "Int", "Boolean", "Bool", "Object",
    ];
    let values: Vec<Value> = names
        .iter()
        .flat_map(|name| [(*name).to_owned(), name.to_lowercase()])
        .flat_map(|name| {
            let list = if name.starts_with(char::is_uppercase) {
                "List"
            } else {
                "list"
            };
            let list = format!("{list}<{name}>");
            [json!(name), json!(list)]
        })
        .collect();
    json_schema!({ "type": "string", "enum": values })
}

/// Reads a present value, including `null`; only an absent one is `None`.
pub(crate) fn deserialize_present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Reads `null` as the default, where the schema allows `null`.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
