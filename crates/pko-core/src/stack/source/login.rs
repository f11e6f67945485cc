//! The credentials of a Stack for a git server: the keys of Secrets, and what the Workspace gets of
//! them.

use k8s_openapi::api::core::v1::SecretKeySelector;
use pko_api::{
    Stack,
    auto::v1alpha1 as auto,
    pulumi::v1::{GitAuth, ResourceRef, ResourceRefType, StackSpec},
};

use super::present;

/// The credentials for a git server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitLogin {
    /// None; the address may still contain a user and a password.
    Anonymous,
    /// Those of `spec.gitAuthSecret`.
    Secret(String),
    Ssh {
        private_key: SecretKey,
        /// The passphrase of the key.
        password: Option<SecretKey>,
    },
    Token(SecretKey),
    /// A GitHub App.
    App {
        app_id: SecretKey,
        installation_id: SecretKey,
        private_key: SecretKey,
    },
    Basic {
        user_name: SecretKey,
        password: SecretKey,
    },
}

impl GitLogin {
    /// The names of its Secrets, each once.
    #[must_use]
    pub fn secrets(&self) -> Vec<&str> {
        let keys: Vec<&SecretKey> = match self {
            Self::Anonymous => Vec::new(),
            Self::Secret(name) => return vec![name],
            Self::Ssh {
                private_key,
                password,
            } => [private_key].into_iter().chain(password).collect(),
            Self::Token(token) => vec![token],
            Self::App {
                app_id,
                installation_id,
                private_key,
            } => vec![app_id, installation_id, private_key],
            Self::Basic {
                user_name,
                password,
            } => vec![user_name, password],
        };
        let mut names: Vec<&str> = keys.into_iter().map(|key| key.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// A key of a Secret in the Stack's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKey {
    /// The name of the Secret.
    pub name: String,
    pub key: String,
}

const NO_VARIANT: &str = "gitAuth config must specify exactly one of 'personalAccessToken', 'sshPrivateKey', 'basicAuth', or 'githubApp'";

/// The credentials of a Stack. `gitAuthSecret` comes before `gitAuth`, of which each part has to be
/// valid, used or not.
///
/// # Errors
/// Upstream's message about an invalid reference.
pub(super) fn login(stack: &Stack) -> Result<GitLogin, String> {
    let spec = &stack.spec;
    let namespace = stack.metadata.namespace.as_deref().unwrap_or_default();
    let first = spec.git_auth.as_ref();
    let first = first.map(|auth| first_login(auth, namespace)).transpose()?;
    match (present(spec.git_auth_secret.as_ref()), first) {
        (Some(secret), _) => Ok(GitLogin::Secret(secret.clone())),
        (None, None) => Ok(GitLogin::Anonymous),
        (None, Some(None)) => Err(NO_VARIANT.to_owned()),
        (None, Some(Some(login))) => Ok(login),
    }
}

/// The first credentials of `gitAuth`, in upstream's order.
fn first_login(auth: &GitAuth, namespace: &str) -> Result<Option<GitLogin>, String> {
    let key = |reference: &ResourceRef, what: &str| {
        secret_key(reference, namespace)
            .map_err(|problem| format!("resolving gitAuth {what}: {problem}"))
    };
    let mut logins = Vec::new();
    if let Some(ssh) = &auth.ssh_auth {
        let password = ssh.password.as_ref();
        logins.push(GitLogin::Ssh {
            private_key: key(&ssh.ssh_private_key, "SSH private key")?,
            password: password
                .map(|password| key(password, "SSH password"))
                .transpose()?,
        });
    }
    if let Some(token) = &auth.access_token {
        logins.push(GitLogin::Token(key(token, "personal access token")?));
    }
    if let Some(app) = &auth.github_app {
        logins.push(GitLogin::App {
            app_id: key(&app.app_id, "GitHub App ID")?,
            installation_id: key(&app.installation_id, "GitHub App installation ID")?,
            private_key: key(&app.private_key, "GitHub App private key")?,
        });
    }
    if let Some(basic) = &auth.basic_auth {
        logins.push(GitLogin::Basic {
            user_name: key(&basic.user_name, "username")?,
            password: key(&basic.password, "password")?,
        });
    }
    Ok(logins.into_iter().next())
}

fn secret_key(reference: &ResourceRef, namespace: &str) -> Result<SecretKey, String> {
    match &reference.reference_type {
        ResourceRefType::Secret => {}
        kind @ (ResourceRefType::Env | ResourceRefType::File | ResourceRefType::Literal) => {
            return Err(format!(
                "{kind} selectors are no longer supported in v2, please use a secret reference instead"
            ));
        }
        kind => {
            return Err(format!(
                "{kind} selectors are not supported, please use a secret reference instead"
            ));
        }
    }
    let selector = reference.secret.as_ref();
    let selector = selector.ok_or("missing secret reference in ResourceRef")?;
    let is_own = |other: &String| other.is_empty() || other == namespace;
    if !selector.namespace.as_ref().is_none_or(is_own) {
        return Err("cross-namespace refs are not allowed".to_owned());
    }
    Ok(SecretKey {
        name: selector.name.clone(),
        key: selector.key.clone(),
    })
}

/// The credentials for the Workspace, if there are any. Like upstream, it gets all credentials of
/// the spec, not only the first.
pub(super) fn selectors(
    spec: &StackSpec,
    known_hosts: Option<&SecretKey>,
) -> Option<auto::WorkspaceGitAuth> {
    let mut auth = present(spec.git_auth_secret.as_ref())
        .map(|name| all_keys(name))
        .unwrap_or_default();
    if let Some(object) = &spec.git_auth {
        merge_over(&mut auth, object);
    }
    auth.known_hosts = known_hosts.map(|key| optional_key(&key.name, &key.key));
    (auth != auto::WorkspaceGitAuth::default()).then_some(auth)
}

fn all_keys(name: &str) -> auto::WorkspaceGitAuth {
    let key = |key| Some(optional_key(name, key));
    auto::WorkspaceGitAuth {
        ssh_private_key: key(keys::SSH_PRIVATE_KEY),
        password: key(keys::PASSWORD),
        username: key(keys::USERNAME),
        token: key(keys::ACCESS_TOKEN),
        ..auto::WorkspaceGitAuth::default()
    }
}

fn merge_over(auth: &mut auto::WorkspaceGitAuth, object: &GitAuth) {
    if let Some(ssh) = &object.ssh_auth {
        auth.ssh_private_key = required_key(&ssh.ssh_private_key);
        if let Some(password) = &ssh.password {
            auth.password = required_key(password);
        }
    }
    if let Some(token) = &object.access_token {
        auth.token = required_key(token);
    }
    if let Some(basic) = &object.basic_auth {
        auth.username = required_key(&basic.user_name);
        auth.password = required_key(&basic.password);
    }
    if let Some(app) = &object.github_app {
        let keys = (
            required_key(&app.app_id),
            required_key(&app.installation_id),
            required_key(&app.private_key),
        );
        if let (Some(app_id), Some(installation_id), Some(private_key)) = keys {
            auth.github_app = Some(auto::WorkspaceGitHubAppAuth {
                app_id,
                installation_id,
                private_key,
            });
        }
    }
}

fn required_key(reference: &ResourceRef) -> Option<SecretKeySelector> {
    let selector = reference.secret.as_ref()?;
    Some(SecretKeySelector {
        name: selector.name.clone(),
        key: selector.key.clone(),
        optional: None,
    })
}

fn optional_key(name: &str, key: &str) -> SecretKeySelector {
    SecretKeySelector {
        name: name.to_owned(),
        key: key.to_owned(),
        optional: Some(true),
    }
}

/// The keys of the Secret in `spec.gitAuthSecret`.
pub mod keys {
    pub const SSH_PRIVATE_KEY: &str = "sshPrivateKey";
    /// The passphrase of the private key, or a user's password.
    pub const PASSWORD: &str = "password";
    pub const USERNAME: &str = "username";
    pub const ACCESS_TOKEN: &str = "accessToken";
    /// The trusted keys of SSH servers, in our spelling and in Flux's. They may also be in the
    /// Secret of `gitAuth.sshAuth`.
    pub const KNOWN_HOSTS: [&str; 2] = ["knownHosts", "known_hosts"];
}
