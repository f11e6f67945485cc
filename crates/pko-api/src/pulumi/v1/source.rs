//! The source of a Stack's program, and the credentials for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ResourceRef;

/// Credentials for a git repository, of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct GitAuth {
    /// A private key for SSH.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_auth: Option<SshAuth>,
    /// An access token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_token: Option<ResourceRef>,
    /// A user and a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basic_auth: Option<BasicAuth>,
    /// A GitHub App.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub github_app: Option<GitHubAppAuth>,
}

/// A private key for SSH.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct SshAuth {
    /// The key.
    pub ssh_private_key: ResourceRef,
    /// The password of the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<ResourceRef>,
}

/// A user and a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct BasicAuth {
    /// The user.
    pub user_name: ResourceRef,
    /// The password.
    pub password: ResourceRef,
}

/// A GitHub App with access to the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct GitHubAppAuth {
    /// The id of the App.
    #[serde(rename = "appID")]
    pub app_id: ResourceRef,
    /// The id of the App's installation.
    #[serde(rename = "installationID")]
    pub installation_id: ResourceRef,
    /// The private key of the App.
    #[serde(rename = "privateKey")]
    pub private_key: ResourceRef,
}

/// A program that Flux fetches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct FluxSource {
    /// The Flux object, in the Stack's namespace.
    pub source_ref: FluxSourceReference,
    /// The folder of the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// A Flux object: any kind that has `status.artifact`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
#[serde(rename_all = "camelCase")]
pub struct FluxSourceReference {
    /// Such as `source.toolkit.fluxcd.io/v1`.
    pub api_version: String,
    /// Such as `GitRepository`.
    pub kind: String,
    /// The name of the object.
    pub name: String,
}

/// A Program in the Stack's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(test, derive(proptest_derive::Arbitrary))]
pub struct ProgramReference {
    /// The name of the Program.
    pub name: String,
}
