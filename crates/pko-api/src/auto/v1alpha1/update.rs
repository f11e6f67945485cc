//! An Update: one operation of Pulumi on one stack.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ProjectInfo;
use crate::{GoDuration, object::kind, schema, text::open_text_enum};

/// One operation of Pulumi on one stack, in a workspace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Update {
    /// The object's metadata.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::metadata()"))]
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What to run.
    #[serde(default)]
    pub spec: UpdateSpec,
    /// What became of it.
    pub status: Option<UpdateStatus>,
}

kind!(Update, "auto.pulumi.com", "v1alpha1", "updates", spec);

open_text_enum! {
    /// What an Update does.
    OperationType {
        /// Shows what `up` would change.
        Preview = "preview",
        /// Makes the resources what the program says.
        Up = "up",
        /// Reads the resources' real state.
        Refresh = "refresh",
        /// Deletes the resources.
        Destroy = "destroy",
    }
}

/// What an Update runs. Options that its operation does not have are ignored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct UpdateSpec {
    /// The Workspace to run in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_name: Option<String>,
    /// The Pulumi stack to work on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack_name: Option<String>,
    /// `preview`, `up`, `refresh` or `destroy`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationType>,
    /// Deletes this object that long after its end, such as `24h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_after_completed: Option<GoDuration>,
    /// How many resources are worked on at a time; unset means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<i32>,
    /// A message to keep with the update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Fails if something would change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_no_changes: Option<bool>,
    /// URNs of resources to replace.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace: Vec<String>,
    /// URNs of the only resources to work on.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target: Vec<String>,
    /// Works on what depends on the targets, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_dependents: Option<bool>,
    /// Refreshes before the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<bool>,
    /// Goes on with other resources when one fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
    /// Removes the stack and its config after a destroy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<bool>,
    /// Runs the program for a refresh or a destroy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_program: Option<bool>,
    /// Stops the operation, gently, if it takes longer; unset means as long as the operator allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i64>,
}

/// What became of an Update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct UpdateStatus {
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// When the operation began.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_time()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_time()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub end_time: Option<Time>,
    /// Where Pulumi Cloud shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
    /// What went wrong, if something did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The Secret that holds the outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    /// The program's project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_info: Option<ProjectInfo>,
    /// Where the operation was begun: it runs there or nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_instance: Option<String>,
    /// What kind of failure it was, such as `transient` or `program`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_class: Option<String>,
    /// How many resources were created, updated, deleted and so on, or would be.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_map()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_changes: BTreeMap<String, i32>,
    /// What the outputs would be after an update, as a preview says; secret ones read `[secret]`.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_values()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub planned_outputs: Option<BTreeMap<String, Value>>,
    /// What a preview printed; the middle is left out where it is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Progressing, Failed and Complete.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::conditions()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
