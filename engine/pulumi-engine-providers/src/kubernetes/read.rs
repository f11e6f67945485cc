//! Reads objects, for refreshes, imports and `get`.

use pulumi_engine_model::property::Properties;
use serde_json::Value;

use super::{
    Kubernetes, KubernetesError, compare,
    discovery::Address,
    errors, naming, normalize, object, requests, tokens,
    tokens::ResourceKind,
    wait::{ReadinessRule, until},
};
use crate::{Call, Observed, ProviderError, ReadRequest};

impl Kubernetes {
    pub(super) fn read_object(
        &self,
        call: &Call<'_>,
        request: &ReadRequest<'_>,
    ) -> Result<Option<Observed>, ProviderError> {
        let kind = kind(call, request)?;
        let what = format!("failed to read {} \"{}\"", kind.kind, request.id);
        match self.live_object(call, &kind, request.id) {
            Ok(None) => Ok(None),
            Ok(Some((address, live))) => self.tell(call, request, &address, &live).map(Some),
            Err(failure) if failure.is_unreachable() && self.settings.delete_unreachable => {
                Ok(None)
            }
            Err(failure) if failure.is_unreachable() && self.settings.skip_update_unreachable => {
                let inputs = request.inputs.cloned().unwrap_or_default();
                let outputs = request.outputs.clone();
                Ok(Some(Observed {
                    id: request.id.to_owned(),
                    inputs,
                    outputs,
                }))
            }
            Err(failure) if failure.is_unreachable() => Err(ProviderError::Failed(format!(
                "{what}: {failure}. If the cluster is gone for good, set `deleteUnreachable` on the provider or \
                 PULUMI_K8S_DELETE_UNREACHABLE=true, and its resources leave the state"
            ))),
            Err(failure) => Err(errors::provider_error(&what, &failure)),
        }
    }

    /// The object of an id and its address; none if it or its kind does not exist.
    fn live_object(
        &self,
        call: &Call<'_>,
        kind: &ResourceKind,
        id: &str,
    ) -> Result<Option<(Address, Value)>, KubernetesError> {
        let cluster = self.cluster()?;
        let Some(served) = self.discover(call, kind)? else {
            return Ok(None);
        };
        let (namespace, name) = object::parse_id(id);
        let address = self.address(kind, &served, namespace, name)?;
        let live = requests::with_retries(cluster, call, || requests::read(cluster, &address))?;
        Ok(live.map(|live| (address, live)))
    }

    /// The result of a read. A refresh also reports an object that is not ready.
    fn tell(
        &self,
        call: &Call<'_>,
        request: &ReadRequest<'_>,
        address: &Address,
        live: &Value,
    ) -> Result<Observed, ProviderError> {
        let observed = observe(call, request, live);
        let inputs = request.inputs.map(object::from_properties);
        let judge = inputs.and_then(|inputs| {
            let judge = ReadinessRule::of(&address.kind, &inputs, &self.settings);
            judge.ok().flatten()
        });
        let reasons = match (
            judge.filter(ReadinessRule::is_heeded_by_refresh),
            self.cluster(),
        ) {
            (Some(judge), Ok(cluster)) => until::unwell(cluster, call, &judge, address, live),
            _ => Vec::new(),
        };
        if reasons.is_empty() {
            return Ok(observed);
        }
        Err(ProviderError::Incomplete {
            id: observed.id,
            outputs: observed.outputs,
            reasons,
        })
    }
}

/// The kind of an existing resource, from its outputs or else its type.
pub(super) fn kind(
    call: &Call<'_>,
    request: &ReadRequest<'_>,
) -> Result<ResourceKind, ProviderError> {
    let token = tokens::own(call.urn.qualified_type());
    let outputs = object::live(request.outputs);
    let inputs = request
        .inputs
        .map(object::from_properties)
        .unwrap_or_default();
    let parsed = tokens::parse(token).map_err(ProviderError::Failed)?;
    match (
        parsed,
        ResourceKind::of(&inputs).or_else(|| ResourceKind::of(&outputs)),
    ) {
        (_, Some(kind)) | (tokens::Token::ResourceKind(kind), None) => Ok(kind),
        (tokens::Token::CustomResource, None) => Err(ProviderError::Failed(format!(
            "the kind of \"{}\" is unknown: use the type `kubernetes:<group>/<version>:<Kind>` to read it",
            request.id
        ))),
    }
}

fn observe(call: &Call<'_>, request: &ReadRequest<'_>, live: &Value) -> Observed {
    let known = request.inputs.filter(|inputs| !inputs.is_empty());
    let inputs = match known {
        Some(inputs) => compare::pruned(live, &normalize::inputs(object::from_properties(inputs))),
        None => normalize::imported(live),
    };
    let none = Properties::new();
    let secrets = known.unwrap_or(&none);
    let remembered = object::own_text(request.outputs, object::FIELD_MANAGER);
    let manager = naming::field_manager(&inputs, remembered, call.urn.as_str());
    let initial_api_version = object::own_text(request.outputs, object::INITIAL_API_VERSION)
        .or(object::text(live, "/apiVersion"))
        .unwrap_or_default();
    let outputs = object::checkpoint(live, &inputs, secrets, initial_api_version, &manager);
    let mut inputs = object::to_properties(&inputs);
    object::mark_secrets(&mut inputs, secrets);
    Observed {
        id: object::id(live),
        inputs,
        outputs,
    }
}
