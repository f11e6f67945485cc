//! The environment of a process workspace, resolved as a kubelet would for a pod.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, EnvVar, EnvVarSource, Secret},
};
use kube::Client;
use pko_api::auto::v1alpha1::WorkspaceSpec;
use pko_kube::RequestError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{kind} \"{name}\" has no key \"{key}\", which {user} requires")]
    MissingKey {
        kind: &'static str,
        name: String,
        key: String,
        user: String,
    },
    #[error("{kind} \"{name}\" does not exist, but {user} requires it")]
    Missing {
        kind: &'static str,
        name: String,
        user: String,
    },
    #[error("spec.env: {0} refers to a field of a pod, and a process workspace has none")]
    OfPod(String),
}

/// Values may be secret and are never printed.
pub(crate) type KeyValues = BTreeMap<String, Vec<u8>>;

/// The variables of a workspace.
#[derive(Default)]
pub(crate) struct ResolvedEnvironment {
    pub(crate) values: BTreeMap<String, String>,
    /// The names of those that come from Secrets.
    pub(crate) secret: BTreeSet<String>,
}

/// Reads Secrets and ConfigMaps of one namespace.
pub(crate) struct ReferenceReader<'client> {
    pub(crate) client: &'client Client,
    pub(crate) namespace: &'client str,
}

impl ReferenceReader<'_> {
    /// None if it does not exist.
    pub(crate) async fn secret(&self, name: &str) -> Result<Option<KeyValues>, RequestError> {
        let secret: Option<Secret> = pko_kube::find(self.client, self.namespace, name).await?;
        Ok(secret.map(|secret| bytes(secret.data.unwrap_or_default())))
    }

    /// None if it does not exist.
    pub(crate) async fn config_map(&self, name: &str) -> Result<Option<KeyValues>, RequestError> {
        let map: Option<ConfigMap> = pko_kube::find(self.client, self.namespace, name).await?;
        Ok(map.map(|map| {
            let texts = map
                .data
                .unwrap_or_default()
                .into_iter()
                .map(|(key, text)| (key, text.into_bytes()));
            texts
                .chain(bytes(map.binary_data.unwrap_or_default()))
                .collect()
        }))
    }

    /// Later entries override earlier ones.
    pub(crate) async fn environment(
        &self,
        spec: &WorkspaceSpec,
    ) -> Result<ResolvedEnvironment, EnvironmentError> {
        let mut environment = ResolvedEnvironment {
            secret: secret_names(&spec.env),
            ..ResolvedEnvironment::default()
        };
        for source in &spec.env_from {
            let (data, kind, name, optional) = match (&source.config_map_ref, &source.secret_ref) {
                (Some(map), _) => (
                    self.config_map(&map.name).await?,
                    "ConfigMap",
                    &map.name,
                    map.optional,
                ),
                (None, Some(secret)) => (
                    self.secret(&secret.name).await?,
                    "Secret",
                    &secret.name,
                    secret.optional,
                ),
                (None, None) => continue,
            };
            let data = present(data, kind, name, optional, "spec.envFrom")?;
            let prefix = source.prefix.as_deref().unwrap_or_default();
            let texts = data.into_iter().filter_map(|(key, value)| {
                Some((format!("{prefix}{key}"), String::from_utf8(value).ok()?))
            });
            let texts: Vec<_> = texts.collect();
            if source.secret_ref.is_some() {
                let names = texts.iter().map(|(name, _)| name.clone());
                environment.secret.extend(names);
            }
            environment.values.extend(texts);
        }
        let variables = self.variables(&spec.env).await?;
        environment.values.extend(variables);
        Ok(environment)
    }

    /// Skips optional variables that are missing.
    pub(crate) async fn variables(
        &self,
        variables: &[EnvVar],
    ) -> Result<BTreeMap<String, String>, EnvironmentError> {
        let mut values = BTreeMap::new();
        for variable in variables {
            if let Some(value) = self.variable(variable).await? {
                values.insert(variable.name.clone(), value);
            }
        }
        Ok(values)
    }

    async fn variable(&self, variable: &EnvVar) -> Result<Option<String>, EnvironmentError> {
        let Some(source) = &variable.value_from else {
            return Ok(Some(variable.value.clone().unwrap_or_default()));
        };
        let user = format!("the variable {}", variable.name);
        let (data, kind, name, key, optional) = match source {
            EnvVarSource {
                secret_key_ref: Some(selector),
                ..
            } => (
                self.secret(&selector.name).await?,
                "Secret",
                &selector.name,
                &selector.key,
                selector.optional,
            ),
            EnvVarSource {
                config_map_key_ref: Some(selector),
                ..
            } => (
                self.config_map(&selector.name).await?,
                "ConfigMap",
                &selector.name,
                &selector.key,
                selector.optional,
            ),
            _ => return Err(EnvironmentError::OfPod(variable.name.clone())),
        };
        let mut data = present(data, kind, name, optional, &user)?;
        match data.remove(key) {
            Some(value) => Ok(Some(String::from_utf8_lossy(&value).into_owned())),
            None if optional == Some(true) => Ok(None),
            None => Err(EnvironmentError::MissingKey {
                kind,
                name: name.clone(),
                key: key.clone(),
                user,
            }),
        }
    }
}

/// The names of variables that come from Secrets.
pub(crate) fn secret_names(variables: &[EnvVar]) -> BTreeSet<String> {
    let is_secret = |variable: &&EnvVar| {
        let source = variable.value_from.as_ref();
        source.is_some_and(|source| source.secret_key_ref.is_some())
    };
    let secret = variables.iter().filter(is_secret);
    secret.map(|variable| variable.name.clone()).collect()
}

fn bytes(data: BTreeMap<String, ByteString>) -> KeyValues {
    data.into_iter()
        .map(|(key, value)| (key, value.0))
        .collect()
}

/// The data; empty if it is missing and optional.
pub(crate) fn present(
    data: Option<KeyValues>,
    kind: &'static str,
    name: &str,
    optional: Option<bool>,
    user: &str,
) -> Result<KeyValues, EnvironmentError> {
    match data {
        Some(data) => Ok(data),
        None if optional == Some(true) => Ok(KeyValues::new()),
        None => Err(EnvironmentError::Missing {
            kind,
            name: name.to_owned(),
            user: user.to_owned(),
        }),
    }
}
