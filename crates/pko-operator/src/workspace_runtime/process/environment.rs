//! The environment of a process workspace: what a kubelet would resolve for a pod.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, EnvVar, EnvVarSource, Secret},
};
use kube::Client;
use pko_api::auto::v1alpha1::WorkspaceSpec;
use pko_kube::RequestError;

/// Why an environment could not be resolved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EnvironmentError {
    /// The API server did not answer.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// What is referred to is not there.
    #[error("{kind} \"{name}\" has no key \"{key}\", which {user} needs")]
    MissingKey {
        /// Secret or ConfigMap.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The key.
        key: String,
        /// What refers to it.
        user: String,
    },
    /// The object is not there.
    #[error("{kind} \"{name}\" does not exist, and {user} needs it")]
    Missing {
        /// Secret or ConfigMap.
        kind: &'static str,
        /// Its name.
        name: String,
        /// What refers to it.
        user: String,
    },
    /// Only a kubelet knows that.
    #[error("spec.env: {0} takes its value from a pod's own fields: a process workspace has none")]
    OfPod(String),
}

/// The keys of a Secret or a ConfigMap. The values may be secret and are never printed.
pub(crate) type Data = BTreeMap<String, Vec<u8>>;

/// Reads Secrets and ConfigMaps of one namespace, by name.
pub(crate) struct Reader<'client> {
    pub(crate) client: &'client Client,
    pub(crate) namespace: &'client str,
}

impl Reader<'_> {
    /// The keys of a Secret; nothing if there is none.
    pub(crate) async fn secret(&self, name: &str) -> Result<Option<Data>, RequestError> {
        let secret: Option<Secret> = pko_kube::find(self.client, self.namespace, name).await?;
        Ok(secret.map(|secret| bytes(secret.data.unwrap_or_default())))
    }

    /// The keys of a ConfigMap; nothing if there is none.
    pub(crate) async fn config_map(&self, name: &str) -> Result<Option<Data>, RequestError> {
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

    /// The environment of a workspace, in the order in which later entries win.
    pub(crate) async fn environment(
        &self,
        spec: &WorkspaceSpec,
    ) -> Result<BTreeMap<String, String>, EnvironmentError> {
        let mut environment = BTreeMap::new();
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
            environment.extend(texts);
        }
        environment.extend(self.variables(&spec.env).await?);
        Ok(environment)
    }

    /// The variables with their values; those that may be missing and are, are left out.
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

fn bytes(data: BTreeMap<String, ByteString>) -> Data {
    data.into_iter()
        .map(|(key, value)| (key, value.0))
        .collect()
}

/// The data, or nothing where that is allowed.
pub(crate) fn present(
    data: Option<Data>,
    kind: &'static str,
    name: &str,
    optional: Option<bool>,
    user: &str,
) -> Result<Data, EnvironmentError> {
    match data {
        Some(data) => Ok(data),
        None if optional == Some(true) => Ok(Data::new()),
        None => Err(EnvironmentError::Missing {
            kind,
            name: name.to_owned(),
            user: user.to_owned(),
        }),
    }
}
