//! Creates objects.

use pulumi_engine_model::property::{Properties, Property};
use serde_json::Value;

use super::{
    Applied, Kubernetes, KubernetesError, MISORDERING,
    cluster::Cluster,
    discovery::Address,
    errors, naming, normalize, object, ownership, placed,
    requests::{self, Application},
    tokens,
    tokens::ResourceKind,
    wait,
    wait::until,
};
use crate::{Call, Created, ProviderError};

const FORCE: &str = "pulumi.com/patchForce";

impl Kubernetes {
    pub(super) fn create_object(
        &self,
        call: &Call<'_>,
        inputs: &Properties,
    ) -> Result<Created, ProviderError> {
        let (kind, object) = parse(call, inputs)?;
        let named = format!("failed to create {} \"{}\"", kind.kind, object::id(&object));
        let to_error = |failure: KubernetesError| errors::provider_error(&named, &failure);
        let cluster = self.cluster().map_err(to_error)?;
        let address = self
            .address_of_new(call, &kind, &object)
            .map_err(to_error)?;
        let manager = naming::field_manager(&object, None, call.urn.as_str());
        let what = format!("failed to create {}", address.describe());
        self.make_room(call, cluster, &address, &object, &manager, &what)?;
        let body = placed(object.clone(), &address);
        let application = Application {
            manager: &manager,
            force: self.forces(&object),
            dry_run: false,
        };
        // a namespace or the API of a new kind may appear a moment later
        let live = requests::persistently(call, MISORDERING, KubernetesError::is_not_found, || {
            requests::with_retries(cluster, call, || {
                requests::apply(cluster, &address, &body, application)
            })
        });
        let live = live.map_err(|failure| errors::provider_error(&what, &failure))?;
        let id = object::id(&live);
        let initial_api_version = kind.api_version();
        let applied = Applied {
            address,
            inputs: object,
            secrets: inputs,
            live,
            initial_api_version,
            manager,
        };
        let outputs = self.settle(call, &applied)?;
        Ok(Created { id, outputs })
    }

    /// The address of a new object. Waits for its kind, whose definition another resource may
    /// create now.
    fn address_of_new(
        &self,
        call: &Call<'_>,
        kind: &ResourceKind,
        object: &Value,
    ) -> Result<Address, KubernetesError> {
        let is_missing =
            |failure: &KubernetesError| matches!(failure, KubernetesError::NoSuchKind(_));
        let served = requests::persistently(call, MISORDERING, is_missing, || {
            self.discover(call, kind)?
                .ok_or_else(|| KubernetesError::NoSuchKind(kind.describe()))
        })?;
        self.address(
            kind,
            &served,
            object::namespace(object),
            object::name(object),
        )
    }

    /// Rejects an existing object, unless this resource created it in a killed run. Waits for one
    /// that is being deleted.
    fn make_room(
        &self,
        call: &Call<'_>,
        cluster: &Cluster,
        address: &Address,
        object: &Value,
        manager: &str,
        what: &str,
    ) -> Result<(), ProviderError> {
        let existing = requests::with_retries(cluster, call, || requests::read(cluster, address))
            .map_err(|failure| errors::provider_error(what, &failure))?;
        let Some(existing) = existing else {
            return Ok(());
        };
        if object::text(&existing, "/metadata/deletionTimestamp").is_some() {
            let timeout = wait::deletion_timeout(call.timeout, object);
            return until::wait_until_deleted(cluster, call, address, timeout).map_err(|reasons| {
                let reasons = reasons.join("; ");
                ProviderError::Failed(format!(
                    "{what}: an object of this name is still being deleted: {reasons}"
                ))
            });
        }
        if self.settings.upsert || ownership::has_applied(&existing, manager) {
            return Ok(());
        }
        Err(errors::exists(what))
    }

    pub(super) fn forces(&self, object: &Value) -> bool {
        self.settings.patch_force || object::is_annotated(object, FORCE)
    }

    /// The previewed object: the result of a dry run if possible, else the inputs.
    pub(super) fn preview_creation(
        &self,
        call: &Call<'_>,
        inputs: &Properties,
    ) -> Result<Created, ProviderError> {
        let (kind, object) = parse(call, inputs)?;
        let manager = naming::field_manager(&object, None, call.urn.as_str());
        let dry_run = self.dry_run(&kind, &object, &manager, false);
        let live = match dry_run {
            Ok(live) => live,
            Err(failure) if is_no_objection(&failure) => None,
            Err(failure) => {
                let what = format!("failed to create {} \"{}\"", kind.kind, object::id(&object));
                return Err(errors::provider_error(&what, &failure));
            }
        };
        let mut outputs = match live {
            Some(live) => object::checkpoint(&live, &object, inputs, &kind.api_version(), &manager),
            None => inputs.clone(),
        };
        hide_what_is_not_yet(&mut outputs, &object);
        Ok(Created {
            id: String::new(),
            outputs,
        })
    }

    /// The result of a dry run; none if parts are unknown, if there is no server or no such kind
    /// yet, or if an object of this name exists.
    pub(super) fn dry_run(
        &self,
        kind: &ResourceKind,
        object: &Value,
        manager: &str,
        exists: bool,
    ) -> Result<Option<Value>, KubernetesError> {
        if object::has_unknown(object) {
            return Ok(None);
        }
        let Some(cluster) = self.cluster().ok().filter(|cluster| !cluster.is_silent()) else {
            return Ok(None);
        };
        let Some(served) = cluster.discover(kind, false)? else {
            return Ok(None);
        };
        let address = self.address(
            kind,
            &served,
            object::namespace(object),
            object::name(object),
        )?;
        if requests::read(cluster, &address)?.is_some() != exists {
            return Ok(None);
        }
        let application = Application {
            manager,
            force: true,
            dry_run: true,
        };
        requests::apply(
            cluster,
            &address,
            &placed(object.clone(), &address),
            application,
        )
        .map(Some)
    }
}

/// The kind and the object of the inputs.
pub(super) fn parse(
    call: &Call<'_>,
    inputs: &Properties,
) -> Result<(ResourceKind, Value), ProviderError> {
    let token = tokens::own(call.urn.qualified_type());
    let object = normalize::inputs(object::from_properties(inputs));
    let kind = tokens::kind_of(token, &object).map_err(ProviderError::Failed)?;
    Ok((kind, object))
}

/// Whether a failed dry run does not predict the run: conflicts, and missing namespaces.
pub(super) fn is_no_objection(failure: &KubernetesError) -> bool {
    failure.is_forbidden()
        || failure.is_unreachable()
        || failure.is_missing_namespace()
        || failure.is_passing()
}

/// Fields of a dry run that the run sets again.
fn hide_what_is_not_yet(outputs: &mut Properties, inputs: &Value) {
    outputs.insert("status".to_owned(), Property::Unknown);
    let mut hide = |map: &str, keys: &[&str]| {
        if let Some(Property::Object(entries)) = outputs.get_mut(map) {
            for key in keys {
                entries.insert((*key).to_owned(), Property::Unknown);
            }
        }
    };
    hide(
        "metadata",
        &[
            "creationTimestamp",
            "generation",
            "managedFields",
            "resourceVersion",
            "uid",
        ],
    );
    let is_service = object::text(inputs, "/kind") == Some("Service");
    if is_service && object::text(inputs, "/spec/clusterIP").is_none() {
        hide("spec", &["clusterIP", "clusterIPs"]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn preview_hides_fields_of_the_run() {
        let live = json!({"kind": "Service", "metadata": {"name": "a", "uid": "1"}, "spec": {"clusterIP": "10.0.0.1", "type": "ClusterIP"}});
        let mut outputs = object::to_properties(&live);
        hide_what_is_not_yet(&mut outputs, &json!({"kind": "Service"}));
        let object = object::from_properties(&outputs);
        let unknown = pulumi_engine_model::property::UNKNOWN;
        assert_eq!(object["metadata"]["uid"], unknown);
        assert_eq!(object["metadata"]["name"], "a");
        assert_eq!(object["spec"]["clusterIP"], unknown);
        assert_eq!(object["spec"]["type"], "ClusterIP");
        assert_eq!(object["status"], unknown);
        let mut outputs = object::to_properties(&live);
        hide_what_is_not_yet(
            &mut outputs,
            &json!({"kind": "Service", "spec": {"clusterIP": "10.0.0.1"}}),
        );
        assert_eq!(
            object::from_properties(&outputs)["spec"]["clusterIP"],
            "10.0.0.1"
        );
    }
}
