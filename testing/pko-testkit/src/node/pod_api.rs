//! The API requests of a scheduler and a kubelet, retried until the API server responds.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::sleep;

use super::references::{Objects, ReferenceKind, config_map_data, secret_data};

/// Between two attempts while the API server is not there.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone)]
pub(super) struct PodApi {
    client: Client,
    namespace: String,
    name: String,
    uid: String,
}

impl PodApi {
    pub(super) fn new(client: Client, namespace: String, name: String, uid: String) -> Self {
        Self {
            client,
            namespace,
            name,
            uid,
        }
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Binds the pod to a node. Returns false if it belongs to another.
    pub(super) async fn bind(&self, node: &str) -> bool {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": self.name, "uid": self.uid },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        let pods = self.pods();
        let parameters = PostParams::default();
        let bound: Option<Status> = retry(async || {
            let bound = pods.create_subresource("binding", &self.name, &parameters, &binding);
            bound.await
        })
        .await;
        if bound.is_some() {
            return true;
        }
        // After a lost response, our own binding looks like another's
        let pod = retry(async || pods.get(&self.name).await).await;
        let place = pod.and_then(|pod| pod.spec?.node_name);
        place.as_deref() == Some(node)
    }

    pub(super) async fn report(&self, status: &PodStatus) {
        // The uid protects a newer pod of the same name
        let patch = Patch::Merge(json!({ "metadata": { "uid": self.uid }, "status": status }));
        let pods = self.pods();
        let parameters = PatchParams::default();
        retry(async || pods.patch_status(&self.name, &parameters, &patch).await).await;
    }

    /// Removes the object at once.
    pub(super) async fn delete(&self) {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default().grace_period(0)
        };
        let pods = self.pods();
        retry(async || pods.delete(&self.name, &parameters).await.map(drop)).await;
    }

    /// The referenced objects that exist.
    pub(super) async fn objects(&self, references: BTreeSet<(ReferenceKind, String)>) -> Objects {
        let mut objects = Objects {
            namespace: self.namespace.clone(),
            ..Objects::default()
        };
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        for (kind, name) in references {
            let values = match kind {
                ReferenceKind::Secret => retry(async || secrets.get(&name).await)
                    .await
                    .map(secret_data),
                ReferenceKind::ConfigMap => retry(async || maps.get(&name).await)
                    .await
                    .map(config_map_data),
            };
            if let Some(values) = values {
                objects.found.insert((kind, name), values);
            }
        }
        objects
    }
}

/// Retries until the API server responds. `None` for a permanent error: the object does not exist,
/// or was replaced.
async fn retry<T>(question: impl AsyncFn() -> Result<T, kube::Error>) -> Option<T> {
    loop {
        match question().await {
            Ok(answer) => return Some(answer),
            Err(kube::Error::Api(status)) if is_permanent(status.code) => return None,
            Err(_) => sleep(PAUSE).await,
        }
    }
}

fn is_permanent(code: u16) -> bool {
    (400..500).contains(&code) && !matches!(code, 401 | 403 | 408 | 429)
}
