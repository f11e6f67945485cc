//! Provider `kubernetes` on a real API server with real controllers, which has no nodes: tests set
//! the status of pods.

mod conflicts;
mod definitions;
mod many_objects;
mod objects;
mod previews;
mod programs;
mod waiting;

use std::{sync::Arc, thread, time::Duration};

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use pko_testkit::{ControlPlane, TestNamespace};
use pulumi_engine_model::{
    property::{Properties, Property},
    urn::Urn,
};
use pulumi_engine_providers::{
    Call, ChangeRequest, CheckRequest, Difference, Provider, ProviderError, ReadRequest,
    kubernetes::{Kubernetes, object},
};
use serde_json::{Value, json};
use tokio::runtime::Handle;

pub(crate) const CONFIG_MAP: &str = "kubernetes:core/v1:ConfigMap";

/// The plane that these tests share.
pub(crate) async fn plane() -> Arc<ControlPlane> {
    ControlPlane::shared_with_controllers().await.unwrap()
}

/// A resource as a state remembers it.
#[derive(Debug, Clone)]
pub(crate) struct Resource {
    pub(crate) urn: Urn,
    pub(crate) id: String,
    pub(crate) inputs: Properties,
    pub(crate) outputs: Properties,
}

impl Resource {
    pub(crate) fn live(&self) -> Value {
        object::live(&self.outputs)
    }
}

/// The provider as an engine would call it.
pub(crate) struct Driver {
    provider: Kubernetes,
    pub(crate) timeout: Option<Duration>,
}

impl Driver {
    /// One that may do everything, in a namespace.
    pub(crate) fn new(plane: &ControlPlane, namespace: &str) -> Self {
        Self::with(plane, namespace, &json!({}))
    }

    pub(crate) fn with(plane: &ControlPlane, namespace: &str, options: &Value) -> Self {
        let mut inputs = json!({
            "kubeconfig": plane.kubeconfig(),
            "namespace": namespace,
            "enableConfigMapMutable": true,
        });
        inputs
            .as_object_mut()
            .unwrap()
            .extend(options.as_object().unwrap().clone());
        let provider = Kubernetes::new(&properties(&inputs), &|_| None).unwrap();
        Self {
            provider,
            timeout: None,
        }
    }

    pub(crate) fn run<T>(
        &self,
        urn: &Urn,
        preview: bool,
        action: impl FnOnce(&Kubernetes, &Call<'_>) -> T,
    ) -> T {
        let call = Call {
            urn,
            preview,
            timeout: self.timeout,
            canceled: &|| false,
            status: &|_| {},
        };
        // the provider has a runtime of its own
        tokio::task::block_in_place(|| action(&self.provider, &call))
    }

    pub(crate) fn check(&self, urn: &Urn, old: Option<&Properties>, inputs: &Value) -> Properties {
        let request = CheckRequest {
            old,
            inputs: &properties(inputs),
            random_seed: urn.as_str().as_bytes(),
        };
        let checked = self
            .run(urn, false, |provider, call| provider.check(call, &request))
            .unwrap();
        assert_eq!(checked.failures, []);
        checked.inputs
    }

    pub(crate) fn create(
        &self,
        token: &str,
        name: &str,
        inputs: &Value,
    ) -> Result<Resource, ProviderError> {
        self.make(token, name, inputs, false)
    }

    pub(crate) fn preview(
        &self,
        token: &str,
        name: &str,
        inputs: &Value,
    ) -> Result<Resource, ProviderError> {
        self.make(token, name, inputs, true)
    }

    fn make(
        &self,
        token: &str,
        name: &str,
        inputs: &Value,
        preview: bool,
    ) -> Result<Resource, ProviderError> {
        let urn = Urn::new(format!("urn:pulumi:dev::demo::{token}::{name}"));
        let inputs = self.check(&urn, None, inputs);
        let created = self.run(&urn, preview, |provider, call| {
            provider.create(call, &inputs)
        })?;
        Ok(Resource {
            urn,
            id: created.id,
            inputs,
            outputs: created.outputs,
        })
    }

    pub(crate) fn diff(&self, resource: &Resource, inputs: &Value) -> Difference {
        let inputs = self.check(&resource.urn, Some(&resource.inputs), inputs);
        let request = change(resource, &inputs, &[]);
        self.run(&resource.urn, false, |provider, call| {
            provider.diff(call, &request)
        })
        .unwrap()
    }

    pub(crate) fn update(
        &self,
        resource: &Resource,
        inputs: &Value,
    ) -> Result<Resource, ProviderError> {
        self.update_ignoring(resource, inputs, &[])
    }

    pub(crate) fn update_ignoring(
        &self,
        resource: &Resource,
        inputs: &Value,
        ignored: &[String],
    ) -> Result<Resource, ProviderError> {
        let inputs = self.check(&resource.urn, Some(&resource.inputs), inputs);
        let request = change(resource, &inputs, ignored);
        let outputs = self.run(&resource.urn, false, |provider, call| {
            provider.update(call, &request)
        })?;
        Ok(Resource {
            inputs,
            outputs,
            ..resource.clone()
        })
    }

    /// What a refresh makes of a resource.
    pub(crate) fn refresh(&self, resource: &Resource) -> Option<Resource> {
        let request = ReadRequest {
            id: &resource.id,
            inputs: Some(&resource.inputs),
            outputs: &resource.outputs,
        };
        let observed = self
            .run(&resource.urn, false, |provider, call| {
                provider.read(call, &request)
            })
            .unwrap()?;
        assert_eq!(observed.id, resource.id);
        Some(Resource {
            inputs: observed.inputs,
            outputs: observed.outputs,
            ..resource.clone()
        })
    }

    pub(crate) fn delete(&self, resource: &Resource) -> Result<(), ProviderError> {
        let request = ReadRequest {
            id: &resource.id,
            inputs: Some(&resource.inputs),
            outputs: &resource.outputs,
        };
        self.run(&resource.urn, false, |provider, call| {
            provider.delete(call, &request)
        })
    }
}

fn change<'a>(
    resource: &'a Resource,
    inputs: &'a Properties,
    ignore_changes: &'a [String],
) -> ChangeRequest<'a> {
    ChangeRequest {
        id: &resource.id,
        old_inputs: &resource.inputs,
        old_outputs: &resource.outputs,
        inputs,
        ignore_changes,
    }
}

pub(crate) fn properties(value: &Value) -> Properties {
    object::to_properties(value)
}

/// Does work that waits, and beside it what it waits for.
pub(crate) fn beside<T: Send>(
    work: impl FnOnce() -> T + Send,
    other: impl Future<Output = ()>,
) -> T {
    thread::scope(|scope| {
        let working = scope.spawn(work);
        tokio::task::block_in_place(|| Handle::current().block_on(other));
        working.join().unwrap()
    })
}

/// The values that a preview can't know.
pub(crate) fn unknown() -> Property {
    Property::Unknown
}

/// An object as it is in the cluster.
pub(crate) async fn stored(namespace: &TestNamespace, kind: &Value, name: &str) -> Option<Value> {
    let api = namespace.api_of(kind).await.unwrap();
    api.get_opt(name)
        .await
        .unwrap()
        .map(|object| serde_json::to_value(object).unwrap())
}

pub(crate) fn config_map_kind() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap"})
}

/// Changes an object as another client.
pub(crate) async fn meddle(
    namespace: &TestNamespace,
    kind: &Value,
    name: &str,
    manager: &str,
    patch: Value,
) {
    let api: Api<DynamicObject> = namespace.api_of(kind).await.unwrap();
    let parameters = PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    };
    api.patch(name, &parameters, &Patch::Merge(patch))
        .await
        .unwrap();
}
