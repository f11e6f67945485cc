//! The API requests of a scheduler and a kubelet, retried until the API server responds.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::sleep;

use super::references::{Objects, ReferenceKind, of_config_map, of_secret};

/// Between two attempts while the API server is not there.
pub(super) const PAUSE: Duration = Duration::from_millis(250);

/// One pod, as the API server knows it.
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

    /// Gives the pod to a node; whether it is that node's now.
    pub(super) async fn bind(&self, node: &str) -> bool {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": self.name, "uid": self.uid },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        let pods = self.pods();
        let parameters = PostParams::default();
        let bound: Option<Status> = persist(async || {
            let bound = pods.create_subresource("binding", &self.name, &parameters, &binding);
            bound.await
        })
        .await;
        if bound.is_some() {
            return true;
        }
        // An answer that was lost looks like somebody else's binding
        let pod = persist(async || pods.get(&self.name).await).await;
        let place = pod.and_then(|pod| pod.spec?.node_name);
        place.as_deref() == Some(node)
    }

    pub(super) async fn report(&self, status: &PodStatus) {
        // With its uid, so that a pod that took the name is not told to be this one
        let patch = Patch::Merge(json!({ "metadata": { "uid": self.uid }, "status": status }));
        let pods = self.pods();
        let parameters = PatchParams::default();
        persist(async || pods.patch_status(&self.name, &parameters, &patch).await).await;
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
        persist(async || pods.delete(&self.name, &parameters).await.map(drop)).await;
    }

    /// The objects that are there of those that somebody refers to.
    pub(super) async fn objects(&self, references: BTreeSet<(ReferenceKind, String)>) -> Objects {
        let mut objects = Objects {
            namespace: self.namespace.clone(),
            ..Objects::default()
        };
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        for (kind, name) in references {
            let values = match kind {
                ReferenceKind::Secret => persist(async || secrets.get(&name).await)
                    .await
                    .map(of_secret),
                ReferenceKind::ConfigMap => persist(async || maps.get(&name).await)
                    .await
                    .map(of_config_map),
            };
            if let Some(values) = values {
                objects.found.insert((kind, name), values);
            }
        }
        objects
    }
}

/// Asks until there is an answer. Nothing, if that is a plain no: the object is not there, or no
/// more the one that was meant.
async fn persist<T>(question: impl AsyncFn() -> Result<T, kube::Error>) -> Option<T> {
    loop {
        match question().await {
            Ok(answer) => return Some(answer),
            Err(kube::Error::Api(status)) if is_no(status.code) => return None,
            Err(_) => sleep(PAUSE).await,
        }
    }
}

fn is_no(code: u16) -> bool {
    (400..500).contains(&code) && !matches!(code, 401 | 403 | 408 | 429)
}
