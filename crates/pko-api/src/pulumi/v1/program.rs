//! A Program: a Pulumi YAML program as a Kubernetes object.

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
    /// The object's metadata.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::metadata()"))]
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The program.
    #[serde(default)]
    pub program: ProgramBody,
    /// Where the program is served from.
    pub status: Option<ProgramStatus>,
}

kind!(Program, "pulumi.com", "v1", "programs", program);

/// A program in Pulumi YAML, without its name and runtime. What this version of the operator does not
/// know is kept and handed on: the program is Pulumi's to understand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ProgramBody {
    /// What the program is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What Pulumi must be able to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulumi: Option<PulumiRequirement>,
    /// Config that the program takes, by key: a type, or a value.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub config: BTreeMap<String, Value>,
    /// Another spelling of `config`, which wins where both have a key.
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
    /// What this version does not know.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::unknown_fields()"))]
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: JsonObject,
}

/// What Pulumi must be able to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct PulumiRequirement {
    /// The versions of Pulumi that will do.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub required_version: Option<Value>,
}

/// A config value that the program takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ConfigParameter {
    /// Its type.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::config_type")]
    pub parameter_type: Option<String>,
    /// Its name, where that is not the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// It is a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
    /// What it is if nobody sets it.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub default: Option<Value>,
    /// What it is.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub value: Option<Value>,
    /// What a list of them holds.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub items: Option<Value>,
    /// What this version does not know.
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
    /// Its type, such as `aws:s3:Bucket`.
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    pub resource_type: String,
    /// Its name, where that is not the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A provider that resources of its package use if they name no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_provider: Option<bool>,
    /// Its inputs.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub properties: BTreeMap<String, Value>,
    /// How Pulumi treats it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<ResourceOptions>,
    /// Reads a resource that exists instead of making one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub get: Option<GetResource>,
    /// What this version does not know.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::unknown_fields()"))]
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: JsonObject,
}

/// A resource that exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct GetResource {
    /// Its provider's id.
    #[schemars(length(min = 1))]
    pub id: String,
    /// What is known of it, for providers that need that to find it.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub state: BTreeMap<String, Value>,
}

/// How Pulumi treats a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct ResourceOptions {
    /// Outputs that are secret.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub additional_secret_outputs: Vec<String>,
    /// Names it had before.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// How long its provider may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_timeouts: Option<CustomTimeouts>,
    /// Deletes the old one before the new one is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_before_replace: Option<bool>,
    /// Is gone when that resource is: no delete of its own.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub deleted_with: Option<Value>,
    /// Resources that come first.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::value_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::list_of_any")]
    pub depends_on: Vec<Value>,
    /// Variables of the environment that its provider sees under other names.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub env_var_mappings: Option<Value>,
    /// Properties whose differences are not shown.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hide_diffs: Vec<String>,
    /// Properties whose changes don't count.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore_changes: Vec<String>,
    /// The id of a resource to take over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<String>,
    /// The resource above it.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub parent: Option<Value>,
    /// Where its plugin is to be had.
    #[serde(rename = "pluginDownloadURL", skip_serializing_if = "Option::is_none")]
    pub plugin_download_url: Option<String>,
    /// Refuses to delete it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect: Option<bool>,
    /// Its provider.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub provider: Option<Value>,
    /// Its providers, for a component.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub providers: BTreeMap<String, Value>,
    /// Properties whose changes replace it.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace_on_changes: Vec<String>,
    /// Resources whose replacement replaces it.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub replace_with: Option<Value>,
    /// A value whose change replaces it.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub replacement_trigger: Option<Value>,
    /// Forgets it instead of deleting it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retain_on_delete: Option<bool>,
    /// The version of its plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What this version does not know.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::unknown_fields()"))]
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: JsonObject,
}

/// How long a resource's provider may take, such as `5m`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct CustomTimeouts {
    /// To make it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<String>,
    /// To read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// To change it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<String>,
    /// To delete it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<String>,
}

/// What the operator says of a Program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct ProgramStatus {
    /// The generation that this status speaks of.
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

/// An archive, described as Flux does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its path on the server.
    pub path: String,
    /// Where it is served.
    pub url: String,
    /// What it is an archive of: the Program's generation.
    pub revision: String,
    /// What it hashes to, such as `sha256:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$"))]
    pub digest: Option<String>,
    /// When it was made.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::time()"))]
    #[schemars(schema_with = "schema::time")]
    pub last_update_time: Time,
    /// Its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// What else is known of it.
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
