//! [`Workspace`]: the environment in which `pulumi` runs. Field comments become the descriptions
//! of the CRD.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    api::core::v1::{EnvFromSource, EnvVar, ResourceRequirements, SecretKeySelector},
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{GoDuration, JsonObject, object::kind, schema, text::open_text_enum};

/// The environment in which Pulumi runs: a program, and the pod that holds it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Workspace {
    #[cfg_attr(test, proptest(strategy = "crate::strategies::metadata()"))]
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: WorkspaceSpec,
    pub status: Option<WorkspaceStatus>,
}

kind!(
    Workspace,
    "Workspace",
    "auto.pulumi.com",
    "v1alpha1",
    "workspaces",
    spec
);

open_text_enum! {
    /// The Pod Security Standard of a workspace's pod.
    SecurityProfile {
        /// The default image runs as root.
        Baseline = "baseline",
        /// Nothing runs as root.
        Restricted = "restricted",
    }
}

/// The desired state of the Workspace: its program, its stacks, and its pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// The service account of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "default"))]
    pub service_account_name: Option<String>,
    /// The Pod Security Standard of the pod: `baseline` or `restricted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "restricted"))]
    pub security_profile: Option<SecurityProfile>,
    /// An image that contains `pulumi`; the default depends on the security profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// When to pull the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Takes the program from a git repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitSource>,
    /// Takes the program from an archive that Flux or the operator serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flux: Option<FluxArtifact>,
    /// Takes the program from the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalSource>,
    /// Creates an empty project, for operations that need no program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_info: Option<ProjectInfo>,
    /// Environment variables from Secrets and ConfigMaps.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::env_from()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::env_from")]
    pub env_from: Vec<EnvFromSource>,
    /// Environment variables.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::env()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::env")]
    pub env: Vec<EnvVar>,
    /// The resource requests and limits of the container.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::resources()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Containers that run after the program is fetched and before the main container starts.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::objects()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::init_containers")]
    pub init_containers: Vec<JsonObject>,
    /// Merged over the pod that the operator creates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
    /// Merged over the Service that the operator creates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_template: Option<ServiceTemplate>,
    /// The log level of Pulumi, from 0 (nothing) to 11.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub pulumi_log_level: Option<u32>,
    /// Removes the pod after this long without a run, such as `30m`; the next run creates it again.
    /// Defaults to `--workspace-idle-timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<GoDuration>,
    /// The Pulumi stacks to select and configure.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub stacks: Vec<WorkspaceStack>,
}

/// A program in a git repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct GitSource {
    /// The URL of the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A commit, a branch or a tag.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The folder of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
    /// Fetches one commit only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shallow: Option<bool>,
    /// Credentials for the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<WorkspaceGitAuth>,
}

/// Credentials for a git repository, of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceGitAuth {
    /// A private key for SSH.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_secret_key()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::secret_key")]
    pub ssh_private_key: Option<SecretKeySelector>,
    /// The user that the password belongs to.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_secret_key()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::secret_key")]
    pub username: Option<SecretKeySelector>,
    /// The password of the user, or of the private key.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_secret_key()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::secret_key")]
    pub password: Option<SecretKeySelector>,
    /// An access token.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_secret_key()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::secret_key")]
    pub token: Option<SecretKeySelector>,
    /// A GitHub App.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github_app: Option<WorkspaceGitHubAppAuth>,
    /// The trusted keys of SSH servers, in the format of OpenSSH's `known_hosts`.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_secret_key()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::secret_key")]
    pub known_hosts: Option<SecretKeySelector>,
}

/// A GitHub App with access to the repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct WorkspaceGitHubAppAuth {
    /// The id of the App.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::secret_key()"))]
    #[serde(rename = "appID")]
    #[schemars(schema_with = "schema::secret_key")]
    pub app_id: SecretKeySelector,
    /// The id of the App's installation.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::secret_key()"))]
    #[serde(rename = "installationID")]
    #[schemars(schema_with = "schema::secret_key")]
    pub installation_id: SecretKeySelector,
    /// The private key of the App.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::secret_key()"))]
    #[serde(rename = "privateKey")]
    #[schemars(schema_with = "schema::secret_key")]
    pub private_key: SecretKeySelector,
}

/// A program in an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct FluxArtifact {
    /// The URL of the archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The expected digest of the archive, such as `sha256:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The folder of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// A program in the workspace's image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct LocalSource {
    /// The folder of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// A Pulumi project: its name and its language.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ProjectInfo {
    /// The name of the project.
    pub name: String,
    /// The runtime of the project, such as `yaml` or `nodejs`.
    pub runtime: String,
}

/// A partial pod, merged over the operator's. It is a patch, so its spec is stored as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct PodTemplate {
    /// Labels and annotations to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    /// A partial pod spec.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_object()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::pod_spec")]
    pub spec: Option<JsonObject>,
}

/// A partial Service, merged over the operator's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ServiceTemplate {
    /// Labels and annotations to add.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
}

/// Labels and annotations to add to an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct TemplateMetadata {
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A Pulumi stack to select and configure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStack {
    /// The name of the stack, such as `org/project/stack`.
    pub name: String,
    /// Creates the stack if it does not exist in its backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<bool>,
    /// The provider that encrypts the stack's secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_provider: Option<String>,
    /// The config of the stack.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub config: Vec<ConfigItem>,
    /// The Pulumi ESC environments of the stack.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub environment: Vec<String>,
}

/// One config value.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ConfigItem {
    /// The config key; without a namespace, it is a key of the project.
    pub key: String,
    /// Treats the key as a path into a structured value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<bool>,
    /// Any JSON value.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::deserialize_present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub value: Option<Value>,
    /// Takes the value from the workspace, instead of `value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub value_from: Option<ConfigValueFrom>,
    /// Encrypts the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
}

impl fmt::Debug for ConfigItem {
    /// Hides a secret value.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = Value::from("…");
        let value = if self.secret == Some(true) {
            Some(&hidden)
        } else {
            self.value.as_ref()
        };
        formatter
            .debug_struct("ConfigItem")
            .field("key", &self.key)
            .field("path", &self.path)
            .field("value", &value)
            .field("value_from", &self.value_from)
            .field("secret", &self.secret)
            .finish()
    }
}

/// The source of a config value in the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ConfigValueFrom {
    /// The name of an environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// The path of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The value is JSON, not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<bool>,
}

/// The observed state of the Workspace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStatus {
    /// The generation that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// The address of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The version of the workspace's Pulumi CLI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pulumi_version: Option<String>,
    /// Ready and Stalled.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::conditions()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secret_config_value_is_not_printed() {
        let item = |secret| ConfigItem {
            key: "password".into(),
            value: Some("hunter2".into()),
            secret: Some(secret),
            ..ConfigItem::default()
        };
        assert!(!format!("{:?}", item(true)).contains("hunter2"));
        assert!(format!("{:?}", item(false)).contains("hunter2"));
    }

    #[test]
    fn config_value_null_is_a_value() {
        let item: ConfigItem =
            serde_json::from_value(json!({ "key": "a", "value": null })).unwrap();
        assert_eq!(item.value, Some(Value::Null));
        assert_eq!(
            serde_json::from_value::<ConfigItem>(json!({ "key": "a" }))
                .unwrap()
                .value,
            None
        );
    }
}
