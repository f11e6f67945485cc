//! Credentials from Secrets. Messages are upstream's where it has one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use pko_auth::Redacted;
use pko_core::stack::{GitLogin, SecretKey, git_keys};
use pko_kube::RequestError;
use pko_source::git::{Credentials, GithubApp, Scheme, SshKey};

/// The identity of a Stack at a git server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) credentials: Credentials,
    /// In addition to the hosts that the manager trusts.
    pub(super) known_hosts: Option<KnownHosts>,
}

/// `known_hosts` from a Secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownHosts {
    pub(super) place: SecretKey,
    /// In the format of OpenSSH.
    pub(super) text: String,
}

/// By name; an error has the message of the API server.
pub(super) type Secrets = BTreeMap<String, Result<Secret, String>>;

/// Reads the Secrets of a login.
pub(super) async fn read(
    client: &Client,
    namespace: &str,
    login: &GitLogin,
) -> Result<Secrets, RequestError> {
    let mut secrets = Secrets::new();
    for name in login.secrets() {
        let secret = match pko_kube::find::<Secret>(client, namespace, name).await {
            Ok(Some(secret)) => Ok(secret),
            Ok(None) => Err(format!("secrets \"{name}\" not found")),
            Err(error) if error.is_refusal() => Err(error.cause()),
            Err(error) => return Err(error),
        };
        secrets.insert(name.to_owned(), secret);
    }
    Ok(secrets)
}

/// The login for a server with this scheme.
pub(super) fn login(
    wanted: &GitLogin,
    namespace: &str,
    scheme: Scheme,
    secrets: &Secrets,
) -> Result<Login, String> {
    let keys = Keys { namespace, secrets };
    let credentials = match wanted {
        GitLogin::Anonymous => Credentials::Anonymous,
        GitLogin::Secret(name) => keys.whole(name, scheme)?,
        GitLogin::Ssh {
            private_key,
            password,
        } => Credentials::Ssh(SshKey {
            private_key: keys.secret(private_key, "SSH private key")?,
            passphrase: match password {
                Some(password) => Some(keys.secret(password, "SSH password")?),
                None => None,
            },
        }),
        GitLogin::Token(token) => Credentials::Token(keys.secret(token, "personal access token")?),
        GitLogin::App {
            app_id,
            installation_id,
            private_key,
        } => Credentials::GithubApp(GithubApp {
            app_id: keys.plain(app_id, "GitHub App ID")?,
            installation_id: keys.plain(installation_id, "GitHub App installation ID")?,
            private_key: keys.secret(private_key, "GitHub App private key")?,
        }),
        GitLogin::Basic {
            user_name,
            password,
        } => Credentials::Basic {
            username: keys.plain(user_name, "username")?,
            password: keys.secret(password, "password")?,
        },
    };
    let known_hosts = keys.known_hosts(wanted).filter(|_| scheme == Scheme::Ssh);
    Ok(Login {
        credentials,
        known_hosts,
    })
}

struct Keys<'secrets> {
    namespace: &'secrets str,
    secrets: &'secrets Secrets,
}

impl Keys<'_> {
    /// A private key, a token or a user from one Secret. If it has a key and a token, the scheme of
    /// the address decides, as in a workspace.
    fn whole(&self, name: &str, scheme: Scheme) -> Result<Credentials, String> {
        let secret = self.get(name)?;
        let of = |key: &str| self.optional(secret, name, key);
        let redacted = |key: &str| of(key).map(|value| value.map(Redacted::new));
        let password = redacted(git_keys::PASSWORD)?;
        let key = redacted(git_keys::SSH_PRIVATE_KEY)?.map(|private_key| {
            Credentials::Ssh(SshKey {
                private_key,
                passphrase: password.clone(),
            })
        });
        let token = redacted(git_keys::ACCESS_TOKEN)?.map(Credentials::Token);
        let chosen = match scheme {
            Scheme::Ssh => key.or(token),
            Scheme::Https | Scheme::Http => token.or(key),
        };
        if let Some(chosen) = chosen {
            return Ok(chosen);
        }
        let Some(username) = of(git_keys::USERNAME)? else {
            return Ok(Credentials::Anonymous);
        };
        let password = password.ok_or_else(|| {
            let missing = self.missing(name, git_keys::PASSWORD);
            format!("creating gitAuth: {missing}")
        })?;
        Ok(Credentials::Basic { username, password })
    }

    fn secret(&self, place: &SecretKey, what: &str) -> Result<Redacted, String> {
        self.plain(place, what).map(Redacted::new)
    }

    fn plain(&self, place: &SecretKey, what: &str) -> Result<String, String> {
        let namespace = self.namespace;
        let SecretKey { name, key } = place;
        let found = self
            .get(name)
            .map_err(|error| format!("unable to get secret {namespace}/{name}: {error}"))
            .and_then(|secret| self.value(secret, name, key))
            .and_then(|value| value.ok_or_else(|| self.missing(name, key)));
        found.map_err(|problem| format!("resolving gitAuth {what}: {problem}"))
    }

    fn get(&self, name: &str) -> Result<&Secret, String> {
        match self.secrets.get(name) {
            Some(Ok(secret)) => Ok(secret),
            Some(Err(error)) => Err(error.clone()),
            None => Err(format!("secrets \"{name}\" not found")),
        }
    }

    fn value(&self, secret: &Secret, name: &str, key: &str) -> Result<Option<String>, String> {
        let value = secret.data.as_ref().and_then(|data| data.get(key));
        let value = value.map(|value| String::from_utf8(value.0.clone()));
        value.transpose().map_err(|_| {
            let namespace = self.namespace;
            format!("key \"{key}\" in secret {namespace}/{name} is not text")
        })
    }

    /// An empty value counts as absent, as in a workspace.
    fn optional(&self, secret: &Secret, name: &str, key: &str) -> Result<Option<String>, String> {
        let value = self.value(secret, name, key)?;
        Ok(value.filter(|value| !value.is_empty()))
    }

    fn missing(&self, name: &str, key: &str) -> String {
        format!("no key \"{key}\" found in secret {}/{name}", self.namespace)
    }

    /// `known_hosts` beside a private key.
    fn known_hosts(&self, wanted: &GitLogin) -> Option<KnownHosts> {
        let name = match wanted {
            GitLogin::Secret(name) => name,
            GitLogin::Ssh { private_key, .. } => &private_key.name,
            _ => return None,
        };
        let secret = self.get(name).ok()?;
        git_keys::KNOWN_HOSTS.into_iter().find_map(|key| {
            let text = self.optional(secret, name, key).ok()??;
            let place = SecretKey {
                name: name.clone(),
                key: key.to_owned(),
            };
            Some(KnownHosts { place, text })
        })
    }
}

#[cfg(test)]
mod tests;
