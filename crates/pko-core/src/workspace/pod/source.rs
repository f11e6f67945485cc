//! The source of the program: arguments of the `fetch` container, and the hash of the source.

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, SecretKeySelector};
use pko_api::{
    Workspace,
    auto::v1alpha1::{
        FluxArtifact, GitSource, LocalSource, ProjectInfo, WorkspaceGitAuth, WorkspaceSpec,
    },
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{AgentSettings, SHARE_PATH, WORKSPACE_PATH};
use crate::redaction::has_credentials;

/// The source of a workspace.
pub(super) enum SpecSource<'a> {
    Git(&'a GitSource),
    Flux(&'a FluxArtifact),
    Local(&'a LocalSource),
    Project(&'a ProjectInfo),
}

impl<'a> SpecSource<'a> {
    /// All sources in the spec; more than one is an error.
    pub(super) fn all(spec: &'a WorkspaceSpec) -> Vec<Self> {
        let sources = [
            spec.git.as_ref().map(Self::Git),
            spec.flux.as_ref().map(Self::Flux),
            spec.local.as_ref().map(Self::Local),
            spec.project_info.as_ref().map(Self::Project),
        ];
        sources.into_iter().flatten().collect()
    }

    pub(super) fn field(&self) -> &'static str {
        match self {
            Self::Git(_) => "spec.git",
            Self::Flux(_) => "spec.flux",
            Self::Local(_) => "spec.local",
            Self::Project(_) => "spec.projectInfo",
        }
    }

    /// The folder of the program in the source.
    pub(super) fn folder(&self) -> Option<&'a str> {
        match self {
            Self::Git(git) => git.dir.as_deref(),
            Self::Flux(flux) => flux.dir.as_deref(),
            Self::Local(_) | Self::Project(_) => None,
        }
    }

    /// The arguments of `agent init`. Values go through the environment, where a user's template
    /// can read and change them. The kubelet expands them; no shell is involved.
    pub(super) fn arguments(&self) -> Vec<String> {
        let words = match self {
            // A command line can be read by others.
            Self::Git(git) => vec![
                "--git-url",
                address("$(GIT_URL)", "env:GIT_URL", git.url.as_deref()),
                "--git-revision",
                "$(GIT_REVISION)",
            ],
            Self::Flux(flux) => vec![
                "--flux-url",
                address("$(FLUX_URL)", "env:FLUX_URL", flux.url.as_deref()),
                "--flux-digest",
                "$(FLUX_DIGEST)",
            ],
            Self::Local(_) => vec!["--local-dir", "$(LOCAL_DIR)"],
            Self::Project(_) => vec![
                "--project-name",
                "$(PROJECT_NAME)",
                "--project-runtime",
                "$(PROJECT_RUNTIME)",
            ],
        };
        let mut arguments = vec!["init".to_owned()];
        match self {
            Self::Project(_) => arguments.extend(["-t".into(), WORKSPACE_PATH.into()]),
            Self::Local(_) => {}
            Self::Git(_) | Self::Flux(_) => {
                arguments.extend(["-t".into(), format!("{SHARE_PATH}/source")]);
            }
        }
        arguments.extend(words.into_iter().map(str::to_owned));
        arguments.extend(self.link());
        arguments
    }

    /// The link to the program. A project is created at that path instead.
    fn link(&self) -> Vec<String> {
        let link = ["--workspace-link".to_owned(), WORKSPACE_PATH.to_owned()];
        let folder = match self {
            Self::Git(_) => ["--source-dir".to_owned(), "$(GIT_DIR)".to_owned()],
            Self::Flux(_) => ["--source-dir".to_owned(), "$(FLUX_DIR)".to_owned()],
            Self::Local(_) => return link.to_vec(),
            Self::Project(_) => return Vec::new(),
        };
        [link, folder].concat()
    }

    /// The environment of `agent init`, in upstream's order.
    pub(super) fn environment(&self, settings: &AgentSettings) -> Vec<Value> {
        match self {
            Self::Git(git) => git_environment(git),
            Self::Flux(flux) => {
                let mut environment = vec![
                    variable("FLUX_URL", flux.url.as_deref()),
                    variable("FLUX_DIGEST", flux.digest.as_deref()),
                    variable("FLUX_DIR", flux.dir.as_deref()),
                ];
                if let Some(size) = &settings.max_untar_size {
                    environment.push(variable("FLUX_MAX_UNTAR_SIZE_BYTES", Some(size)));
                }
                environment
            }
            Self::Local(local) => vec![variable("LOCAL_DIR", local.dir.as_deref())],
            Self::Project(project) => vec![
                variable("PROJECT_NAME", Some(&project.name)),
                variable("PROJECT_RUNTIME", Some(&project.runtime)),
            ],
        }
    }
}

fn address(shown: &'static str, hidden: &'static str, url: Option<&str>) -> &'static str {
    if url.is_some_and(has_credentials) {
        hidden
    } else {
        shown
    }
}

fn git_environment(git: &GitSource) -> Vec<Value> {
    let mut environment = vec![
        variable("GIT_URL", git.url.as_deref()),
        variable("GIT_REVISION", git.reference.as_deref()),
        variable("GIT_DIR", git.dir.as_deref()),
    ];
    let credentials = git_credentials(git);
    environment.extend(credentials.iter().map(|variable| json!(variable)));
    environment
}

/// The environment of `agent init` for git, besides the URL: shallow fetch, credentials, known
/// hosts.
#[must_use]
pub fn git_credentials(git: &GitSource) -> Vec<EnvVar> {
    let shallow = (git.shallow == Some(true)).then(|| EnvVar {
        name: "GIT_SHALLOW".to_owned(),
        value: Some("true".to_owned()),
        ..EnvVar::default()
    });
    let auth = git.auth.as_ref();
    let app = auth.and_then(|auth| auth.github_app.as_ref());
    let of = |key: fn(&WorkspaceGitAuth) -> &Option<SecretKeySelector>| {
        auth.and_then(|auth| key(auth).as_ref())
    };
    let secrets = [
        ("GIT_SSH_PRIVATE_KEY", of(|auth| &auth.ssh_private_key)),
        ("GIT_USERNAME", of(|auth| &auth.username)),
        ("GIT_PASSWORD", of(|auth| &auth.password)),
        ("GIT_TOKEN", of(|auth| &auth.token)),
        ("GIT_GITHUB_APP_ID", app.map(|app| &app.app_id)),
        (
            "GIT_GITHUB_APP_INSTALLATION_ID",
            app.map(|app| &app.installation_id),
        ),
        (
            "GIT_GITHUB_APP_PRIVATE_KEY",
            app.map(|app| &app.private_key),
        ),
        ("GIT_KNOWN_HOSTS", of(|auth| &auth.known_hosts)),
    ];
    let secrets = secrets
        .into_iter()
        .filter_map(|(name, selector)| Some(secret(name, selector?)));
    shallow.into_iter().chain(secrets).collect()
}

fn variable(name: &str, value: Option<&str>) -> Value {
    json!({"name": name, "value": value.unwrap_or_default()})
}

fn secret(name: &str, selector: &SecretKeySelector) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            secret_key_ref: Some(selector.clone()),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    }
}

/// Changes only with the source for which a pod was started. The running agent handles config
/// changes.
#[must_use]
pub fn revision_hash(workspace: &Workspace) -> String {
    let spec = &workspace.spec;
    let source = json!([spec.git, spec.flux, spec.local, spec.project_info]);
    let digest = Sha256::digest(source.to_string());
    hex::encode(digest.get(..16).unwrap_or_default())
}
