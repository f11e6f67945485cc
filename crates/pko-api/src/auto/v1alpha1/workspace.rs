//! A Workspace: the place where a program lies and `pulumi` runs.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    api::core::v1::{EnvFromSource, EnvVar, ResourceRequirements, SecretKeySelector},
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{GoDuration, JsonObject, object::kind, schema, text::open_text_enum};

/// The place where a program lies and Pulumi runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct Workspace {
    /// The object's metadata.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::metadata()"))]
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the workspace holds and how its pod looks.
    #[serde(default)]
    pub spec: WorkspaceSpec,
    /// How far it is.
    pub status: Option<WorkspaceStatus>,
}

kind!(Workspace, "auto.pulumi.com", "v1alpha1", "workspaces", spec);

open_text_enum! {
    /// How tightly a workspace's pod is locked down.
    SecurityProfile {
        /// The Pod Security Standard of this name; the default image runs as root.
        Baseline = "baseline",
        /// The Pod Security Standard of this name; no root.
        Restricted = "restricted",
    }
}

/// What a workspace holds and how its pod looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceSpec {
    /// The service account of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "default"))]
    pub service_account_name: Option<String>,
    /// `baseline` or `restricted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "restricted"))]
    pub security_profile: Option<SecurityProfile>,
    /// The image that has `pulumi`; the default depends on the security profile.
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
    /// Makes an empty project, for work that needs no program.
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
    /// What the container asks for.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::resources()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resources")]
    pub resources: Option<ResourceRequirements>,
    /// Containers that run before the program's, after it was fetched.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::objects()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::init_containers")]
    pub init_containers: Vec<JsonObject>,
    /// Merged over the pod that the operator makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_template: Option<PodTemplate>,
    /// Merged over the service that the operator makes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_template: Option<ServiceTemplate>,
    /// How much Pulumi logs, 0 (nothing) to 11.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::int32")]
    pub pulumi_log_level: Option<u32>,
    /// After this long without a run the pod goes, until the next run needs one; such as `30m`. Without it, the
    /// operator's own setting counts.
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
    /// The repository.
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
    pub auth: Option<GitAuth>,
}

/// Credentials for a git repository; one kind of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct GitAuth {
    /// A private key for SSH.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_secret_key()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::secret_key")]
    pub ssh_private_key: Option<SecretKeySelector>,
    /// The name that goes with the password.
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
    pub github_app: Option<GitHubAppAuth>,
    /// The keys of SSH servers that may be believed, as in OpenSSH's `known_hosts`.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_secret_key()"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::secret_key")]
    pub known_hosts: Option<SecretKeySelector>,
}

/// A GitHub App that may read the repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct GitHubAppAuth {
    /// The App.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::secret_key()"))]
    #[serde(rename = "appID")]
    #[schemars(schema_with = "schema::secret_key")]
    pub app_id: SecretKeySelector,
    /// Its installation.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::secret_key()"))]
    #[serde(rename = "installationID")]
    #[schemars(schema_with = "schema::secret_key")]
    pub installation_id: SecretKeySelector,
    /// Its private key.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::secret_key()"))]
    #[serde(rename = "privateKey")]
    #[schemars(schema_with = "schema::secret_key")]
    pub private_key: SecretKeySelector,
}

/// A program in an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct FluxArtifact {
    /// Where the archive is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What it must hash to, such as `sha256:…`.
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
    /// The project's name.
    pub name: String,
    /// The project's runtime, such as `yaml` or `nodejs`.
    pub runtime: String,
}

/// A partial pod, merged over the operator's. It is a patch, so its spec is kept as it was written.
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

/// A partial service, merged over the operator's.
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
    /// Labels.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::texts()"))]
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A Pulumi stack to select and configure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStack {
    /// The stack's name, such as `org/project/stack`.
    pub name: String,
    /// Makes the stack if its backend does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create: Option<bool>,
    /// What encrypts its secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_provider: Option<String>,
    /// Its config.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::small_list()"))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub config: Vec<ConfigItem>,
    /// Its Pulumi ESC environments.
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
    /// The config key; without a namespace it is the project's.
    pub key: String,
    /// The key is a path into a structured value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<bool>,
    /// Any JSON value.
    #[cfg_attr(test, proptest(strategy = "crate::strategies::optional_value()"))]
    #[serde(
        default,
        deserialize_with = "schema::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(schema_with = "schema::any")]
    pub value: Option<Value>,
    /// Takes the value from the workspace instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub value_from: Option<ConfigValueFrom>,
    /// Encrypts the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<bool>,
}

impl fmt::Debug for ConfigItem {
    /// The item without its value where that is secret.
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

/// Where in the workspace a config value comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ConfigValueFrom {
    /// An environment variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<String>,
    /// A file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What is found there is JSON, not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<bool>,
}

/// How far a workspace is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStatus {
    /// The generation that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
    /// Where the agent listens.
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
