//! The environment variables of a Workspace.

use k8s_openapi::api::core::v1::{
    ConfigMapEnvSource, ConfigMapKeySelector, EnvFromSource, EnvVar, EnvVarSource, SecretEnvSource,
    SecretKeySelector,
};
use pko_api::pulumi::v1::{KeySelector, ResourceRef, ResourceRefType, StackSpec};

use super::present;

/// Set by `spec.backend`.
pub(in crate::stack) const BACKEND_VARIABLE: &str = "PULUMI_BACKEND_URL";
/// Set by `spec.accessTokenSecret`.
pub(in crate::stack) const TOKEN_VARIABLE: &str = "PULUMI_ACCESS_TOKEN";
/// The key of that Secret.
const TOKEN_KEY: &str = "accessToken";

/// The backend and the token, then the references by name.
pub(super) fn variables(spec: &StackSpec) -> Vec<EnvVar> {
    let backend = present(spec.backend.as_ref()).map(|url| literal(BACKEND_VARIABLE, url));
    let token = present(spec.access_token_secret.as_ref())
        .map(|secret| from_secret(TOKEN_VARIABLE, secret, TOKEN_KEY));
    let references = spec
        .env_refs
        .iter()
        .filter_map(|(name, reference)| variable(name, reference));
    backend.into_iter().chain(token).chain(references).collect()
}

/// The variable of a reference; none for one that the check of references rejects.
fn variable(name: &str, reference: &ResourceRef) -> Option<EnvVar> {
    match &reference.reference_type {
        ResourceRefType::Literal => {
            let value = reference.literal.as_ref()?;
            Some(literal(name, &value.value))
        }
        ResourceRefType::Secret => {
            let secret = reference.secret.as_ref()?;
            Some(from_secret(name, &secret.name, &secret.key))
        }
        ResourceRefType::ConfigMap => Some(from_config_map(name, reference.config_map.as_ref()?)),
        _ => None,
    }
}

fn literal(name: &str, value: &str) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    }
}

fn from_secret(name: &str, secret: &str, key: &str) -> EnvVar {
    let selector = SecretKeySelector {
        name: secret.to_owned(),
        key: key.to_owned(),
        optional: None,
    };
    with_source(
        name,
        EnvVarSource {
            secret_key_ref: Some(selector),
            ..EnvVarSource::default()
        },
    )
}

fn from_config_map(name: &str, config_map: &KeySelector) -> EnvVar {
    let selector = ConfigMapKeySelector {
        name: config_map.name.clone(),
        key: config_map.key.clone(),
        optional: None,
    };
    with_source(
        name,
        EnvVarSource {
            config_map_key_ref: Some(selector),
            ..EnvVarSource::default()
        },
    )
}

fn with_source(name: &str, source: EnvVarSource) -> EnvVar {
    EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(source),
    }
}

/// Whole ConfigMaps, then whole Secrets.
pub(super) fn sources(spec: &StackSpec) -> Vec<EnvFromSource> {
    let config_maps = spec.envs.iter().map(|name| EnvFromSource {
        config_map_ref: Some(ConfigMapEnvSource {
            name: name.clone(),
            optional: None,
        }),
        ..EnvFromSource::default()
    });
    let secrets = spec.env_secrets.iter().map(|name| EnvFromSource {
        secret_ref: Some(SecretEnvSource {
            name: name.clone(),
            optional: None,
        }),
        ..EnvFromSource::default()
    });
    config_maps.chain(secrets).collect()
}
