//! [`Stack`]: a Pulumi stack that the operator keeps up to date. Field comments become the
//! descriptions of the CRD.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ConfigMapRef, FluxSource, GitAuth, ProgramReference, ResourceRef, StackStatus, UpdateTemplate,
    WorkspaceTemplate,
};
use crate::{GoDuration, object::kind, schema};

/// A Pulumi stack that the operator keeps up to date.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Stack {
    #[cfg_attr(test, proptest(strategy = "crate::strategies::metadata()"))]
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: StackSpec,
    pub status: Option<StackStatus>,
}

kind!(Stack, "Stack", "pulumi.com", "v1", "stacks", spec);

/// The desired state of the Stack: its program, config and backend, and when it is updated.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct StackSpec {
    /// The Pulumi stack, such as `org/project/stack`.
    pub stack: String,
    /// The URL of the state backend. Defaults to Pulumi Cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Deprecated, use `envRefs`: a Secret with Pulumi Cloud's token under `accessToken`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_token_secret: Option<String>,
    /// The provider that encrypts the stack's secrets, such as `passphrase` or `awskms://…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_provider: Option<String>,
    /// Never creates the stack: it must exist in its backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_local_stack_only: Option<bool>,
    /// Deprecated: `false` means `useLocalStackOnly`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_on_create: Option<bool>,
    /// The service account of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,

    /// Environment variables, by name.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_map()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env_refs: BTreeMap<String, ResourceRef>,
    /// Deprecated, use `envRefs`: ConfigMaps whose keys become variables.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub envs: Vec<String>,
    /// Deprecated, use `envRefs`: Secrets whose keys become variables.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_secrets: Vec<String>,
    /// Pulumi ESC environments.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub environment: Vec<String>,

    /// Config values, by key; any JSON.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::values()"))]
    #[serde(
        default,
        deserialize_with = "schema::null_is_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(schema_with = "schema::untyped")]
    pub config: BTreeMap<String, Value>,
    /// Config values from ConfigMaps, by key.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_map()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_ref: BTreeMap<String, ConfigMapRef>,
    /// Another spelling of `configRef`; a key may be in only one of them.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_map()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config_refs: BTreeMap<String, ConfigMapRef>,
    /// Deprecated, use `secretsRef`: secret config values, by key.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    /// Secret config values, by key.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_map()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets_ref: BTreeMap<String, ResourceRef>,

    /// The git repository of the program, by https or ssh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_repo: Option<String>,
    /// The branch or tag to follow; not with `commit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit to use; not with `branch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The folder of the program in the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo_dir: Option<String>,
    /// Fetches one commit only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shallow: Option<bool>,
    /// Deprecated, use `gitAuth`: a Secret with credentials for the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_auth_secret: Option<String>,
    /// Credentials for the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git_auth: Option<GitAuth>,
    /// Takes the program from Flux.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flux_source: Option<FluxSource>,
    /// Takes the program from a Program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program_ref: Option<ProgramReference>,

    /// URNs of the only resources to work on.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// Also works on resources that depend on the targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_dependents: Option<bool>,
    /// Refreshes before each update.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh: Option<bool>,
    /// Runs a refresh before each update. If it finds changes, the update does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_no_refresh_changes: Option<bool>,
    /// Retries when another update has locked the stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_on_update_conflict: Option<bool>,
    /// Runs after each resync period, even if nothing has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_resync_on_commit_match: Option<bool>,
    /// The resync period, and the interval at which a branch is polled; at least 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resync_frequency_seconds: Option<i64>,
    /// The longest wait between retries: one day if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_max_backoff_duration_seconds: Option<i64>,
    /// The Stack is Stalled after this many failures in a row: 3 if not set, -1 for never. Retries
    /// continue with a growing delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -1))]
    pub retry_limit: Option<i64>,
    /// Cancels a run after this long; the run then counts as failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<i64>,
    /// Starts no run until it is false again. A run in progress continues, and a deletion proceeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Destroys the stack's resources when this object is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destroy_on_finalize: Option<bool>,
    /// Runs the program for the destroy at deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_program: Option<bool>,
    /// Removes the stack itself from its backend, with its history and config, after the destroy at
    /// deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_stack_on_destroy: Option<bool>,
    /// Previews instead of updating. A deletion destroys only if an earlier update created
    /// resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<bool>,
    /// Stacks that must have succeeded before this one runs.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prerequisites: Vec<Prerequisite>,
    /// Whether the Workspace is kept after a successful update: `Retain` (the default) or `Delete`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_reclaim_policy: Option<ReclaimPolicy>,
    /// Merged over the Workspace that the operator creates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_template: Option<WorkspaceTemplate>,
    /// Merged over the Updates that the operator creates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_template: Option<UpdateTemplate>,
    /// Objects that receive the outputs, in addition to the status.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "name"]))]
    pub outputs_to: Vec<OutputsTarget>,
    /// How many successful Updates are kept. If not set, those of the last day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub successful_updates_history_limit: Option<i64>,
    /// How many failed Updates are kept. If not set, those of the last day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub failed_updates_history_limit: Option<i64>,
}

impl StackSpec {
    /// Whether the operator may create the stack in its backend.
    ///
    /// `initOnCreate: false` is the spelling of `useLocalStackOnly` in upstream's first versions.
    #[must_use]
    pub fn may_create_stack(&self) -> bool {
        !self.use_local_stack_only.unwrap_or(false) && self.init_on_create.unwrap_or(true)
    }

    /// Config values from ConfigMaps, under either spelling of the field.
    #[must_use]
    pub fn config_map_refs(&self) -> Cow<'_, BTreeMap<String, ConfigMapRef>> {
        if self.config_refs.is_empty() {
            return Cow::Borrowed(&self.config_ref);
        }
        let mut merged = self.config_refs.clone();
        merged.extend(self.config_ref.clone());
        Cow::Owned(merged)
    }
}

impl fmt::Debug for StackSpec {
    /// The spec as JSON, without the plaintext of `secrets` and of literals.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = serde_json::to_value(self).map_err(|_| fmt::Error)?;
        for field in ["secrets", "secretsRef", "envRefs"] {
            if let Some(Value::Object(entries)) = shown.get_mut(field) {
                entries.values_mut().for_each(hide);
            }
        }
        write!(formatter, "StackSpec {shown}")
    }
}

/// Replaces a string, or the literal of a reference, by an ellipsis.
fn hide(value: &mut Value) {
    if value.is_string() {
        *value = "…".into();
    } else if let Some(literal) = value.pointer_mut("/literal/value") {
        *literal = "…".into();
    }
}

/// Another Stack of the same namespace that must have succeeded before this one runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Prerequisite {
    /// The name of the other Stack.
    pub name: String,
    /// How recently it must have succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirement: Option<Requirement>,
}

/// How recently a prerequisite must have succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Such as `1h30m`. If the last success is older, the prerequisite runs again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded_within_duration: Option<GoDuration>,
}

/// An object that receives a stack's outputs after each update.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct OutputsTarget {
    /// `Secret` (the default) or `ConfigMap`.
    pub kind: OutputsKind,
    /// Name of the object. The operator creates and owns it; an object with another owner is not
    /// changed.
    pub name: String,
    /// The keys of the object, each with the name of an output. If empty, the object has a key for
    /// each output, of the same name.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<String, String>,
}

/// The kind of an object that receives a stack's outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[schemars(inline)]
pub enum OutputsKind {
    /// A Secret, for all outputs.
    #[default]
    Secret,
    /// A ConfigMap, for outputs that are not secret.
    ConfigMap,
}

/// Whether a Workspace is kept after a successful update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[schemars(inline)]
pub enum ReclaimPolicy {
    #[default]
    Retain,
    Delete,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(fields: &Value) -> StackSpec {
        let mut spec = json!({ "stack": "dev" });
        spec.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn stack_is_created_by_default() {
        for (fields, expected) in [
            (json!({}), true),
            (json!({ "initOnCreate": true }), true),
            (json!({ "useLocalStackOnly": false }), true),
            (json!({ "initOnCreate": false }), false),
            (json!({ "useLocalStackOnly": true }), false),
            (
                json!({ "useLocalStackOnly": true, "initOnCreate": true }),
                false,
            ),
            (
                json!({ "useLocalStackOnly": false, "initOnCreate": false }),
                false,
            ),
        ] {
            assert_eq!(spec(&fields).may_create_stack(), expected, "{fields}");
        }
    }

    #[test]
    fn both_spellings_of_config_refs_count() {
        let spec = spec(&json!({
            "configRef": { "a": { "name": "one", "key": "k" }, "b": { "name": "one", "key": "k" } },
            "configRefs": { "b": { "name": "two", "key": "k" }, "c": { "name": "two", "key": "k" } },
        }));
        let names: Vec<_> = spec
            .config_map_refs()
            .iter()
            .map(|(key, reference)| format!("{key}={}", reference.name))
            .collect();
        assert_eq!(names, ["a=one", "b=one", "c=two"]);
    }

    #[test]
    fn config_that_is_null_is_empty() {
        assert!(spec(&json!({ "config": null })).config.is_empty());
    }

    #[test]
    fn numbers_keep_their_precision() {
        let text = r#"{"stack":"dev","config":{"big":9007199254740993,"bigger":18446744073709551615,"small":0.1,"tiny":5e-324,"third":0.3333333333333333}}"#;
        let spec: StackSpec = serde_json::from_str(text).unwrap();
        let written = serde_json::to_string(&spec).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&written).unwrap(),
            serde_json::from_str::<Value>(text).unwrap()
        );
        assert!(
            written.contains("9007199254740993") && written.contains("18446744073709551615"),
            "{written}"
        );
    }

    #[test]
    fn printing_a_spec_shows_no_secret() {
        let spec = spec(&json!({
            "secrets": { "password": "hunter2" },
            "secretsRef": { "token": { "type": "Literal", "literal": { "value": "hunter3" } } },
            "envRefs": { "TOKEN": { "type": "Literal", "literal": { "value": "hunter4" } } },
        }));
        let printed = format!("{spec:?}");
        assert!(!printed.contains("hunter"), "{printed}");
        assert!(
            printed.contains("password") && printed.contains("TOKEN"),
            "{printed}"
        );
    }
}
