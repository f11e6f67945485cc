//! Updates objects.

use pulumi_engine_model::property::Properties;
use serde_json::Value;

use super::{
    Applied, Kubernetes, KubernetesError,
    cluster::Cluster,
    create::{is_no_objection, parse},
    discovery::Address,
    errors, naming, object, ownership, placed,
    requests::{self, Application},
};
use crate::{Call, ChangeRequest, ProviderError};

impl Kubernetes {
    pub(super) fn update_object(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Properties, ProviderError> {
        let (kind, inputs) = parse(call, request.inputs)?;
        let what = format!("failed to update {} \"{}\"", kind.kind, request.id);
        let to_error = |failure: KubernetesError| errors::provider_error(&what, &failure);
        let cluster = self.cluster().map_err(to_error)?;
        let served = self.discover(call, &kind).map_err(to_error)?;
        let served =
            served.ok_or_else(|| to_error(KubernetesError::NoSuchKind(kind.describe())))?;
        let (namespace, name) = object::parse_id(request.id);
        let address = self
            .address(&kind, &served, namespace, name)
            .map_err(to_error)?;
        let remembered = object::own_text(request.old_outputs, object::FIELD_MANAGER);
        let manager = naming::field_manager(&inputs, remembered, call.urn.as_str());
        let owned =
            requests::with_retries(cluster, call, || take_over(cluster, &address, &manager))
                .map_err(to_error)?;
        let Some(owned) = owned else {
            return Err(ProviderError::Failed(format!(
                "{what}: the object is no longer there; refresh the stack, and the next run creates it again"
            )));
        };
        let body =
            ownership::without_ignored(inputs.clone(), &owned, request.ignore_changes, &manager);
        let body = placed(body, &address);
        // objects from before server-side apply have no managers, and would conflict with
        // themselves
        let is_legacy = object::list(&owned, "/metadata/managedFields").is_empty();
        let application = Application {
            manager: &manager,
            force: self.forces(&inputs) || is_legacy,
            dry_run: false,
        };
        let live = requests::with_retries(cluster, call, || {
            requests::apply(cluster, &address, &body, application)
        });
        let live = live.map_err(to_error)?;
        let initial_api_version =
            object::own_text(request.old_outputs, object::INITIAL_API_VERSION);
        let initial_api_version =
            initial_api_version.map_or_else(|| kind.api_version(), ToOwned::to_owned);
        let secrets = request.inputs;
        self.settle(
            call,
            &Applied {
                address,
                inputs,
                secrets,
                live,
                initial_api_version,
                manager,
            },
        )
    }

    pub(super) fn preview_update(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Properties, ProviderError> {
        let (kind, inputs) = parse(call, request.inputs)?;
        let remembered = object::own_text(request.old_outputs, object::FIELD_MANAGER);
        let manager = naming::field_manager(&inputs, remembered, call.urn.as_str());
        match self.dry_run(&kind, &inputs, &manager, true) {
            Ok(Some(live)) => Ok(object::checkpoint(
                &live,
                &inputs,
                request.inputs,
                &kind.api_version(),
                &manager,
            )),
            Ok(None) => Ok(request.inputs.clone()),
            Err(failure) if is_no_objection(&failure) => Ok(request.inputs.clone()),
            Err(failure) => {
                let what = format!("failed to update {} \"{}\"", kind.kind, request.id);
                Err(errors::provider_error(&what, &failure))
            }
        }
    }
}

/// Reads an object, and takes over the fields of earlier managers; none if it does not exist.
fn take_over(
    cluster: &Cluster,
    address: &Address,
    manager: &str,
) -> Result<Option<Value>, KubernetesError> {
    let Some(live) = requests::read(cluster, address)? else {
        return Ok(None);
    };
    match ownership::taken_over(&live, manager) {
        Some(owners) => requests::set_owners(cluster, address, &live, &owners).map(Some),
        None => Ok(Some(live)),
    }
}
