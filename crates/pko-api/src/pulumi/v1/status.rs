//! [`StackStatus`]: the observed state of a Stack.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    auto::v1alpha1::{OperationType, ProjectInfo},
    schema,
    text::open_text_enum,
};

/// The observed state of the Stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct StackStatus {
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The value of the request annotation that was handled last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_reconcile_request: Option<String>,
    /// Ready, Reconciling and Stalled.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::conditions()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The Update in progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_update: Option<CurrentUpdate>,
    /// The last Update that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update: Option<LastUpdate>,
    /// The stack's outputs; secret ones read `[secret]`.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_values()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub outputs: Option<BTreeMap<String, Value>>,
    /// The project of the program, as the last Update reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_info: Option<ProjectInfo>,
    /// An update was started and no destroy has succeeded since, so the stack may have resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<bool>,
    /// The versions of the referenced ConfigMaps and Secrets that the last update used. Before the
    /// first update, the versions at first sight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub references: Option<ReferencesStatus>,
}

/// The versions of the referenced ConfigMaps and Secrets that an update used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct ReferencesStatus {
    /// Versions of ConfigMaps, by name.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_maps: BTreeMap<String, String>,
    /// Versions of Secrets, by name.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    /// A referenced object has changed since the workspace was created, so the pod carries the
    /// versions of the references.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
}

/// The Update in progress, and the state of the Stack for which it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct CurrentUpdate {
    /// The generation of the Stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The value of the Stack's request annotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile_request: Option<String>,
    /// The name of the Update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The revision of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The number of failures in a row before this Update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// The versions of the referenced ConfigMaps and Secrets that this Update uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub references: Option<ReferencesStatus>,
}

open_text_enum! {
    /// The result of an Update.
    UpdateState {
        Succeeded = "succeeded",
        Failed = "failed",
    }
}

/// The last Update that ended, and the state of the Stack for which it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct LastUpdate {
    /// The generation of the Stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The value of the Stack's request annotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile_request: Option<String>,
    /// The name of the Update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `preview`, `up`, `refresh` or `destroy`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationType>,
    /// `succeeded` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<UpdateState>,
    /// The error, if the Update failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The revision of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_commit: Option<String>,
    /// The revision of the program in the last successful Update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_commit: Option<String>,
    /// The Update's page in Pulumi Cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
    /// When this status received the result.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_time()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_resync_time: Option<Time>,
    /// Failures in a row before this Update, for the same spec and request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<i64>,
    /// The kind of the failure, such as `transient` or `program`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_class: Option<String>,
    /// Attempts in a row that failed for reasons outside the stack. They do not count as failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<i64>,
}
