//! What the operator says of a Stack.

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

/// What the operator says of a Stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct StackStatus {
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The request annotation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_reconcile_request: Option<String>,
    /// Ready, Reconciling and Stalled.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::conditions()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The Update that runs now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_update: Option<CurrentUpdate>,
    /// The Update that ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update: Option<LastUpdate>,
    /// The stack's outputs; secret ones read `[secret]`.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_values()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub outputs: Option<BTreeMap<String, Value>>,
    /// The program's project, as it was last seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_info: Option<ProjectInfo>,
    /// An update was begun, and no destroy has succeeded since: there may be resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<bool>,
    /// The ConfigMaps and Secrets that the last update went with, and before it, those that were first seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub references: Option<ReferencesStatus>,
}

/// The versions of the ConfigMaps and Secrets that an update went with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct ReferencesStatus {
    /// ConfigMaps by name.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_maps: BTreeMap<String, String>,
    /// Secrets by name.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    /// One has changed since the workspace was first made, so that it was made anew: from then on its pod bears the
    /// versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed: Option<bool>,
}

/// The Update that runs now, and what it was made for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct CurrentUpdate {
    /// The Stack's generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The Stack's request annotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile_request: Option<String>,
    /// The Update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The program's revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// How many failures came before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<i64>,
    /// The ConfigMaps and Secrets that it goes with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub references: Option<ReferencesStatus>,
}

open_text_enum! {
    /// How an Update ended.
    UpdateState {
        /// Well.
        Succeeded = "succeeded",
        /// Not well.
        Failed = "failed",
    }
}

/// The Update that ended last, and what it was made for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct LastUpdate {
    /// The Stack's generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The Stack's request annotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile_request: Option<String>,
    /// The Update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it did.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationType>,
    /// `succeeded` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<UpdateState>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The program's revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempted_commit: Option<String>,
    /// The revision of the last Update that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_commit: Option<String>,
    /// Where Pulumi Cloud shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
    /// When its result was recorded here.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_time()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub last_resync_time: Option<Time>,
    /// How many failures in a row preceded it, for the same spec and request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failures: Option<i64>,
    /// What kind of failure it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_class: Option<String>,
    /// How many attempts in a row came to nothing by no fault of the stack: they are not counted as failures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<i64>,
}
