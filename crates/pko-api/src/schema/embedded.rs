//! Kubernetes' own types inside ours, from the API server's OpenAPI document. They keep the list
//! types and map keys that server-side apply depends on. They have no descriptions, so that a CRD
//! fits into the annotation of a plain `kubectl apply`.

use std::{collections::BTreeMap, sync::LazyLock};

use schemars::{Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::structural::EMBEDDED;

const CORE: &str = "io.k8s.api.core.v1.";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const REFERENCE_PREFIX: &str = "#/components/schemas/";

/// The syntax of a quantity; Kubernetes' OpenAPI document has only "string or number".
const QUANTITY_PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The types that our kinds embed. The types that these refer to are added.
const ROOTS: [&str; 6] = [
    "Container",
    "EnvFromSource",
    "EnvVar",
    "PodSpec",
    "ResourceRequirements",
    "SecretKeySelector",
];

/// Keys of Kubernetes' OpenAPI that a CRD must not have, or that upstream's CRDs lack.
///
/// An enum would reject values that a newer API server accepts, and upstream's CRDs have none here.
const DROPPED: [&str; 6] = [
    "description",
    "enum",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-unions",
    "x-kubernetes-group-version-kind",
];

/// Types that contain a `LocalObjectReference` in Go and repeat its fields in OpenAPI. The
/// reference is atomic, and so are these types in upstream's CRDs, which are generated from Go.
const ATOMIC_REFERENCES: [&str; 5] = [
    "ConfigMapEnvSource",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "SecretEnvSource",
    "SecretProjection",
];

/// The part of the API server's OpenAPI document from which our CRDs are built.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoreTypes {
    /// The version of Kubernetes.
    pub version: String,
    /// The API server's schemas by name, without descriptions.
    pub schemas: BTreeMap<String, Value>,
}

static COMMITTED: LazyLock<CoreTypes> = LazyLock::new(|| {
    #[expect(
        clippy::expect_used,
        reason = "the file is part of the source and read by tests"
    )]
    serde_json::from_str(include_str!("../../openapi/core-v1.json"))
        .expect("openapi/core-v1.json is written by `cargo xtask generate`")
});

impl CoreTypes {
    /// The committed document.
    #[must_use]
    pub fn committed() -> &'static Self {
        &COMMITTED
    }

    /// Reduces a document of the API server (`/openapi/v3/api/v1`) to the types that our kinds
    /// embed.
    ///
    /// # Errors
    /// The name of a type that the document refers to and lacks.
    pub fn from_document(version: &str, document: &Value) -> Result<Self, String> {
        let mut schemas = BTreeMap::new();
        let mut pending: Vec<String> = ROOTS.iter().map(|name| format!("{CORE}{name}")).collect();
        while let Some(name) = pending.pop() {
            if schemas.contains_key(&name) {
                continue;
            }
            // `object_meta` replaces it.
            if name == OBJECT_META {
                continue;
            }
            let mut schema = document
                .pointer(&format!("/components/schemas/{name}"))
                .ok_or(&name)?
                .clone();
            remove_descriptions(&mut schema);
            collect_references(&schema, &mut pending);
            schemas.insert(name, schema);
        }
        Ok(Self {
            version: version.to_owned(),
            schemas,
        })
    }

    /// The structural schema of a core type, with all references resolved.
    fn schema_of(&self, name: &str) -> Value {
        match name {
            QUANTITY => int_or_string(Some(QUANTITY_PATTERN)),
            INT_OR_STRING => int_or_string(None),
            OBJECT_META => object_meta(),
            _ => {
                let mut schema = self.resolve(&self.schemas.get(name).cloned().unwrap_or_default());
                align_with_upstream(name.strip_prefix(CORE).unwrap_or(name), &mut schema);
                schema
            }
        }
    }

    fn resolve(&self, schema: &Value) -> Value {
        let Value::Object(object) = schema else {
            return schema.clone();
        };
        if let Some(name) = reference_name(object) {
            return self.schema_of(name);
        }
        let mut resolved = Map::new();
        for (key, value) in object {
            match key.as_str() {
                "properties" => {
                    resolved.insert(key.clone(), self.properties(object, value));
                }
                "items" | "additionalProperties" => {
                    resolved.insert(key.clone(), without_default(self.resolve(value)));
                }
                dropped if DROPPED.contains(&dropped) => {}
                _ => {
                    resolved.insert(key.clone(), value.clone());
                }
            }
        }
        Value::Object(resolved)
    }

    fn properties(&self, owner: &Map<String, Value>, properties: &Value) -> Value {
        let required = |name: &str| {
            owner
                .get("required")
                .and_then(Value::as_array)
                .is_some_and(|names| names.iter().any(|item| item == name))
        };
        let properties = properties
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, property)| {
                let resolved = self.resolve(property);
                // A default on a required field is Go's zero value, not a rule.
                let resolved = if required(name) {
                    without_default(resolved)
                } else {
                    resolved
                };
                (name.clone(), resolved)
            });
        Value::Object(properties.collect())
    }
}

/// Applies the differences between upstream's schemas, generated from Go, and the API server's
/// OpenAPI document.
fn align_with_upstream(name: &str, schema: &mut Value) {
    let Value::Object(object) = schema else {
        return;
    };
    if ATOMIC_REFERENCES.contains(&name) {
        object.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    // Its two defaults are names of Go constants. Upstream's CRDs lack them, and both operators
    // must store an object the same way.
    if let ("AzureDiskVolumeSource", Some(Value::Object(properties))) =
        (name, object.get_mut("properties"))
    {
        for name in ["cachingMode", "kind"] {
            properties
                .entry(name)
                .and_modify(|property| *property = without_default(property.take()));
        }
    }
}

/// The metadata that a user may set inside a spec (of a volume claim's template).
fn object_meta() -> Value {
    let texts = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    json!({
        "type": "object",
        "properties": {
            "annotations": texts,
            "finalizers": { "type": "array", "items": { "type": "string" } },
            "labels": texts,
            "name": { "type": "string" },
            "namespace": { "type": "string" },
        },
    })
}

/// The type that a schema refers to, directly or as the only part of an `allOf`.
fn reference_name(object: &Map<String, Value>) -> Option<&str> {
    let direct = object.get("$ref");
    let reference = direct.or_else(|| object.get("allOf")?.get(0)?.get("$ref"))?;
    reference.as_str()?.strip_prefix(REFERENCE_PREFIX)
}

fn collect_references(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            names.extend(reference_name(object).map(str::to_owned));
            object
                .values()
                .for_each(|child| collect_references(child, names));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|child| collect_references(child, names)),
        _ => {}
    }
}

fn remove_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            // A property called `description` is a schema, not a string.
            if object.get("description").is_some_and(Value::is_string) {
                object.remove("description");
            }
            object.values_mut().for_each(remove_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_descriptions),
        _ => {}
    }
}

fn without_default(mut schema: Value) -> Value {
    if let Value::Object(object) = &mut schema {
        object.remove("default");
    }
    schema
}

fn int_or_string(pattern: Option<&str>) -> Value {
    let mut schema = json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "x-kubernetes-int-or-string": true,
    });
    if let (Some(pattern), Some(object)) = (pattern, schema.as_object_mut()) {
        object.insert("pattern".to_owned(), pattern.into());
    }
    schema
}

/// A core type, with [`EMBEDDED`].
fn core(name: &str) -> Value {
    let mut schema = CoreTypes::committed().schema_of(&format!("{CORE}{name}"));
    if let Value::Object(object) = &mut schema {
        object.insert(EMBEDDED.to_owned(), true.into());
    }
    schema
}

fn list_of(name: &str, list_type: &Value) -> Schema {
    let mut list = json!({ "type": "array", "items": core(name) });
    if let (Some(list), Some(extra)) = (list.as_object_mut(), list_type.as_object()) {
        list.extend(extra.clone());
    }
    to_schema(list)
}

fn to_schema(value: Value) -> Schema {
    Schema::try_from(value).unwrap_or_default()
}

fn by_name() -> Value {
    json!({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"] })
}

pub(crate) fn env(_: &mut SchemaGenerator) -> Schema {
    list_of("EnvVar", &by_name())
}

pub(crate) fn env_from(_: &mut SchemaGenerator) -> Schema {
    list_of(
        "EnvFromSource",
        &json!({ "x-kubernetes-list-type": "atomic" }),
    )
}

pub(crate) fn init_containers(_: &mut SchemaGenerator) -> Schema {
    list_of("Container", &by_name())
}

pub(crate) fn resources(_: &mut SchemaGenerator) -> Schema {
    to_schema(core("ResourceRequirements"))
}

pub(crate) fn secret_key(_: &mut SchemaGenerator) -> Schema {
    to_schema(core("SecretKeySelector"))
}

/// A partial pod spec: a whole one requires containers, a patch does not.
pub(crate) fn pod_spec(_: &mut SchemaGenerator) -> Schema {
    let mut spec = core("PodSpec");
    if let Value::Object(object) = &mut spec {
        object.remove("required");
    }
    to_schema(spec)
}
