//! [`Program`]: a Pulumi YAML program as a Kubernetes object. Field comments become the
//! descriptions of the CRD.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{JsonObject, object::kind, schema};

/// A Pulumi YAML program.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Program {
    #[cfg_attr(test, proptest(strategy = "crate::strategies::metadata()"))]
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub program: ProgramBody,
    pub status: Option<ProgramStatus>,
}

kind!(Program, "Program", "pulumi.com", "v1", "programs", program);

/// A program in Pulumi YAML, without its name and runtime. Fields that this version does not define
/// are kept and passed to Pulumi.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ProgramBody {
    /// A description of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Requirements on Pulumi.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulumi: Option<PulumiRequirement>,
    /// Config of the program, by key: a type, or a value.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub config: BTreeMap<String, Value>,
    /// Another spelling of `config`. If both have a key, the value here is used.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_map()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub configuration: BTreeMap<String, ConfigParameter>,
    /// Values that are computed once, by name.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub variables: BTreeMap<String, Value>,
    /// Resources, by name.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_map()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Resource>,
    /// The stack's outputs, by name.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub outputs: BTreeMap<String, Value>,
    /// Packages that the program needs, by name.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packages: BTreeMap<String, String>,
    /// Components that the program defines, by name.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub components: BTreeMap<String, Value>,
    /// Fields that this version does not define.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::unknown_fields()"))]
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: JsonObject,
}

/// Requirements on Pulumi.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct PulumiRequirement {
    /// The range of Pulumi versions that can run the program, such as `>=3.100.0`.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub required_version: Option<Value>,
}

/// A config value of the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ConfigParameter {
    /// The type of the value.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::config_type")]
    pub parameter_type: Option<String>,
    /// The name, if it differs from the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The value is a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
    /// The value if none is set.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub default: Option<Value>,
    /// The value.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub value: Option<Value>,
    /// The type of the items, if the value is a list.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub items: Option<Value>,
    /// Fields that this version does not define.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::unknown_fields()"))]
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: JsonObject,
}

/// A resource of the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// The type of the resource, such as `aws:s3:Bucket`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub resource_type: String,
    /// The name, if it differs from the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Makes this provider the default for resources of its package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_provider: Option<bool>,
    /// The inputs of the resource.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub properties: BTreeMap<String, Value>,
    /// Resource options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<ResourceOptions>,
    /// Reads an existing resource instead of creating one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<GetResource>,
    /// Fields that this version does not define.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::unknown_fields()"))]
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: JsonObject,
}

/// An existing resource to read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct GetResource {
    /// The id of the resource at its provider.
    #[schemars(length(min = 1))]
    pub id: String,
    /// Known properties, for providers that need them to find the resource.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub state: BTreeMap<String, Value>,
}

/// Resource options, as Pulumi documents them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct ResourceOptions {
    /// Outputs to treat as secret.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_secret_outputs: Vec<String>,
    /// Former names of the resource.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Timeouts for the operations of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_timeouts: Option<CustomTimeouts>,
    /// Deletes the old resource before creating its replacement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_before_replace: Option<bool>,
    /// Not deleted on its own if that resource is deleted.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub deleted_with: Option<Value>,
    /// Resources that must be created before this one.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::value_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::list_of_any")]
    pub depends_on: Vec<Value>,
    /// Environment variables that the provider receives under other names.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub env_var_mappings: Option<Value>,
    /// Properties whose differences are not shown.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hide_diffs: Vec<String>,
    /// Properties whose changes are ignored.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_changes: Vec<String>,
    /// The id of an existing resource to import.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<String>,
    /// The parent resource.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub parent: Option<Value>,
    /// The URL from which the plugin is downloaded.
    #[serde(rename = "pluginDownloadURL", skip_serializing_if = "Option::is_none")]
    pub plugin_download_url: Option<String>,
    /// Prevents deletion of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect: Option<bool>,
    /// The provider of the resource.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub provider: Option<Value>,
    /// The providers of a component, by package.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub providers: BTreeMap<String, Value>,
    /// Properties whose changes replace the resource.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace_on_changes: Vec<String>,
    /// Resources whose replacement also replaces this one.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub replace_with: Option<Value>,
    /// A value whose change replaces the resource.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub replacement_trigger: Option<Value>,
    /// Removes the resource from the state without deleting it at its provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain_on_delete: Option<bool>,
    /// The version of the provider's plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Fields that this version does not define.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::unknown_fields()"))]
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: JsonObject,
}

/// Timeouts for the operations of the provider, such as `5m`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct CustomTimeouts {
    /// For a create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<String>,
    /// For a read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// For an update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<String>,
    /// For a delete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
}

/// The observed state of the Program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct ProgramStatus {
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The program as an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// Ready and Stalled.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::conditions()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// An archive, in the form that Flux uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// The path of the archive on the server.
    pub path: String,
    /// The URL of the archive.
    pub url: String,
    /// The generation of the Program in the archive.
    pub revision: String,
    /// The digest of the archive, such as `sha256:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$"))]
    pub digest: Option<String>,
    /// When the archive was created.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::time()"))]
    #[schemars(schema_with = "schema::time")]
    pub last_update_time: Time,
    /// The size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// Further facts about the archive.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn program_keeps_unknown_fields() {
        let program = json!({
            "apiVersion": "pulumi.com/v1",
            "kind": "Program",
            "metadata": { "name": "demo" },
            "program": {
                "novelty": { "depth": [1, 9_007_199_254_740_993_i64, 0.1] },
                "resources": {
                    "one": { "type": "a:b:C", "novelty": null, "options": { "novelty": true } },
                },
                "configuration": { "size": { "type": "Number", "novelty": 1 } },
            },
        });
        let decoded: Program = serde_json::from_value(program.clone()).unwrap();
        assert_eq!(serde_json::to_value(&decoded).unwrap(), program);
    }
}
