//! The provider `kubernetes`: any kind by its token, server-side apply, auto-naming, await logic.
//!
//! It follows Pulumi's own provider. The API server is contacted on demand.

mod check;
mod cluster;
mod compare;
mod config_change;
mod create;
mod delete;
mod diff;
mod discovery;
mod errors;
mod force_new;
mod naming;
mod normalize;
pub mod object;
mod ownership;
mod read;
mod requests;
mod scope;
mod settings;
pub(crate) mod tokens;
mod update;
mod wait;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use pulumi_engine_model::property::Properties;
use pulumi_yaml::ResourceType;
use serde_json::Value;

use crate::{
    Call, ChangeRequest, CheckRequest, Checked, Created, Difference, Environment, Observed,
    Provider, ProviderError, ReadRequest,
};
use cluster::Cluster;
use discovery::{Address, ServedKind, is_path_segment};
use errors::KubernetesError;
use settings::KubernetesConfig;
use tokens::ResourceKind;
use wait::{ReadinessRule, until};

/// How long to wait for a kind after its definition, or for a namespace.
const MISORDERING: Duration = Duration::from_secs(30);

/// Creates the provider for a run.
pub fn make(
    config: &Properties,
    environment: &Environment,
) -> Result<Arc<dyn Provider>, ProviderError> {
    let provider = Kubernetes::new(config, &|name| environment.get(name))?;
    Ok(Arc::new(provider))
}

/// The provider with its configuration.
pub struct Kubernetes {
    settings: KubernetesConfig,
    cluster: OnceLock<Result<Cluster, KubernetesError>>,
}

impl Kubernetes {
    /// A provider from the inputs of its resource, or the `kubernetes:*` values of the stack's
    /// config.
    pub fn new(
        inputs: &Properties,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ProviderError> {
        let settings =
            KubernetesConfig::read(inputs, environment).map_err(ProviderError::Failed)?;
        Ok(Self {
            settings,
            cluster: OnceLock::new(),
        })
    }

    fn cluster(&self) -> Result<&Cluster, KubernetesError> {
        let cluster = self.cluster.get_or_init(|| Cluster::new(&self.settings));
        cluster.as_ref().map_err(Clone::clone)
    }

    fn default_namespace(&self) -> &str {
        let given = self.settings.namespace.as_deref();
        self.cluster()
            .map_or(given.unwrap_or("default"), Cluster::namespace)
    }

    /// Whether a kind is namespaced. Unknown kinds are assumed to be.
    fn is_namespaced(&self, kind: &ResourceKind) -> bool {
        if let Some(known) = scope::is_namespaced(kind) {
            return known;
        }
        let served = self.cluster().ok().filter(|cluster| !cluster.is_silent());
        let served = served.and_then(|cluster| cluster.discover(kind, false).ok().flatten());
        served.is_none_or(|served| served.namespaced)
    }

    /// How the server serves a kind. Asks again if it did not serve it before.
    fn discover(
        &self,
        call: &Call<'_>,
        kind: &ResourceKind,
    ) -> Result<Option<ServedKind>, KubernetesError> {
        let cluster = self.cluster()?;
        requests::with_retries(cluster, call, || match cluster.discover(kind, false)? {
            Some(served) => Ok(Some(served)),
            None => cluster.discover(kind, true),
        })
    }

    fn address(
        &self,
        kind: &ResourceKind,
        served: &ServedKind,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Address, KubernetesError> {
        let default = self.default_namespace();
        let wrong = [namespace.unwrap_or(default), name]
            .into_iter()
            .find(|name| !is_path_segment(name));
        if let Some(wrong) = wrong {
            return Err(KubernetesError::NoName(wrong.to_owned()));
        }
        Ok(Address::new(kind.clone(), served, namespace, default, name))
    }

    /// Waits until an applied object is ready, and returns the outputs.
    fn settle(&self, call: &Call<'_>, applied: &Applied<'_>) -> Result<Properties, ProviderError> {
        let Applied {
            address,
            inputs,
            secrets,
            live,
            ..
        } = applied;
        let failed = |reason| ProviderError::Failed(format!("{}: {reason}", address.describe()));
        let outputs = |live: &Value| {
            object::checkpoint(
                live,
                inputs,
                secrets,
                &applied.initial_api_version,
                &applied.manager,
            )
        };
        let judge = ReadinessRule::of(&address.kind, inputs, &self.settings).map_err(failed)?;
        let Some(judge) = judge else {
            return Ok(outputs(live));
        };
        let cluster = self
            .cluster()
            .map_err(|failure| failed(failure.to_string()))?;
        let timeout = wait::timeout(call.timeout, inputs).unwrap_or(judge.timeout());
        match until::ready(cluster, call, &judge, address, live.clone(), timeout) {
            Ok(live) => Ok(outputs(&live)),
            Err(unready) => Err(ProviderError::Incomplete {
                id: object::id(&unready.object),
                outputs: outputs(&unready.object),
                reasons: unready.reasons,
            }),
        }
    }
}

struct Applied<'a> {
    address: Address,
    inputs: Value,
    /// The inputs as properties, with secrets.
    secrets: &'a Properties,
    live: Value,
    initial_api_version: String,
    manager: String,
}

/// The object of the inputs, at its address.
fn placed(mut object: Value, address: &Address) -> Value {
    let namespace = address.namespace.clone().map(Value::String);
    object::set_metadata(&mut object, "namespace", namespace);
    object
}

/// Removes the secrets of a resource from an error, because the server may quote them.
fn discreet(error: ProviderError, inputs: &Properties) -> ProviderError {
    let hidden = |text| object::without_secrets(text, inputs);
    match error {
        ProviderError::Failed(text) => ProviderError::Failed(hidden(text)),
        ProviderError::Incomplete {
            id,
            outputs,
            reasons,
        } => ProviderError::Incomplete {
            id,
            outputs,
            reasons: reasons.into_iter().map(hidden).collect(),
        },
    }
}

impl Provider for Kubernetes {
    fn diff_config(&self, old: &Properties, new: &Properties) -> Difference {
        config_change::difference(old, new)
    }

    fn resource_type(&self, token: &str) -> Result<ResourceType, ProviderError> {
        let token = tokens::parse(token).map_err(ProviderError::Failed)?;
        let is_secret = matches!(token, tokens::Token::ResourceKind(kind) if kind.is("", "Secret"));
        let secret_outputs = if is_secret {
            vec!["data", "stringData"]
        } else {
            Vec::new()
        };
        Ok(ResourceType {
            secret_outputs,
            ..ResourceType::default()
        })
    }

    fn check(&self, call: &Call<'_>, request: &CheckRequest<'_>) -> Result<Checked, ProviderError> {
        self.check_inputs(call, request)
    }

    fn diff(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Difference, ProviderError> {
        self.difference(call, request)
    }

    fn create(&self, call: &Call<'_>, inputs: &Properties) -> Result<Created, ProviderError> {
        let created = if call.preview {
            self.preview_creation(call, inputs)
        } else {
            self.create_object(call, inputs)
        };
        created.map_err(|error| discreet(error, inputs))
    }

    fn read(
        &self,
        call: &Call<'_>,
        request: &ReadRequest<'_>,
    ) -> Result<Option<Observed>, ProviderError> {
        self.read_object(call, request)
    }

    fn update(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Properties, ProviderError> {
        let outputs = if call.preview {
            self.preview_update(call, request)
        } else {
            self.update_object(call, request)
        };
        outputs.map_err(|error| discreet(error, request.inputs))
    }

    fn delete(&self, call: &Call<'_>, request: &ReadRequest<'_>) -> Result<(), ProviderError> {
        self.delete_object(call, request)
    }

    fn invoke(
        &self,
        _: &Call<'_>,
        token: &str,
        _: &Properties,
    ) -> Result<Properties, ProviderError> {
        Err(ProviderError::Failed(format!(
            "function `{token}` is not supported by pulumi-engine: write its objects as resources, or use an image \
             with Pulumi's CLI for it"
        )))
    }
}
