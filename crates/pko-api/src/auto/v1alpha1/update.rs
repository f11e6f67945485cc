//! [`Update`]: one operation of Pulumi on one stack. Field comments become the descriptions of the
//! CRD.

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
    #[cfg_attr(test, proptest(strategy = "crate::strategies::metadata()"))]
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: UpdateSpec,
    pub status: Option<UpdateStatus>,
}

kind!(
    Update,
    "Update",
    "auto.pulumi.com",
    "v1alpha1",
    "updates",
    spec
);

open_text_enum! {
    /// The operation of an Update.
    OperationType {
        /// Shows what `up` would change.
        Preview = "preview",
        /// Creates, changes and deletes resources until they match the program.
        Up = "up",
        /// Reads the real state of the resources.
        Refresh = "refresh",
        /// Deletes the resources.
        Destroy = "destroy",
    }
}

/// The operation to run. Options that the operation does not have are ignored.
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
    /// Deletes this object this long after its end, such as `24h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_after_completed: Option<GoDuration>,
    /// How many resources are processed at a time. If not set, there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<i32>,
    /// A message that is stored with the update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Fails if a resource would change.
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
    /// Also works on resources that depend on the targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_dependents: Option<bool>,
    /// Refreshes before the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<bool>,
    /// Continues with other resources when one fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
    /// Removes the stack and its config after a destroy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<bool>,
    /// Runs the program for a refresh or a destroy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_program: Option<bool>,
    /// Cancels the operation after this long; the operator's limit if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i64>,
}

/// The observed state of the Update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct UpdateStatus {
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// When the operation started.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_time()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub start_time: Option<Time>,
    /// When the operation ended.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_time()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time")]
    pub end_time: Option<Time>,
    /// The operation's page in Pulumi Cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permalink: Option<String>,
    /// The error, if the operation failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The Secret that holds the outputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    /// The project of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_info: Option<ProjectInfo>,
    /// The workspace instance in which the operation started. It never starts in another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_instance: Option<String>,
    /// The kind of the failure, such as `transient` or `program`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_class: Option<String>,
    /// How many resources were created, updated, deleted and so on, or would be.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_map()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_changes: BTreeMap<String, i32>,
    /// Outputs that the previewed update would produce; secrets read `[secret]`.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_values()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::map_of_any")]
    pub planned_outputs: Option<BTreeMap<String, Value>>,
    /// The text that a preview printed; a long text has its middle cut out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Progressing, Failed and Complete.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::conditions()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
