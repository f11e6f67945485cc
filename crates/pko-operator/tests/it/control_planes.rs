//! The control planes of the tests: one that they share, and one that they use one after the other.

use std::sync::Arc;

use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use pko_api::{Decoded, Program, Stack, Update, Workspace};
use pko_testkit::{ControlPlane, eventually};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

use crate::{harness::Watched, rbac::grant};

/// For managers that watch namespaces of their own.
static SHARED: OnceCell<Arc<ControlPlane>> = OnceCell::const_new();
/// For managers that watch everything, one at a time.
static IN_TURN: Mutex<Option<Arc<ControlPlane>>> = Mutex::const_new(None);

/// How long a test has a control plane to itself.
pub(crate) enum PlaneUse {
    /// Never, or it has its own.
    Shared,
    /// As long as this lives.
    InTurn(MutexGuard<'static, Option<Arc<ControlPlane>>>),
}

impl Drop for PlaneUse {
    /// What a failed test leaves is not for the next one.
    fn drop(&mut self) {
        if let Self::InTurn(plane) = self
            && std::thread::panicking()
        {
            **plane = None;
        }
    }
}

/// The control plane for a manager.
pub(crate) async fn plane(watched: Watched) -> (Arc<ControlPlane>, PlaneUse) {
    match watched {
        Watched::Namespaces(_) => {
            let plane = SHARED.get_or_init(start).await;
            (Arc::clone(plane), PlaneUse::Shared)
        }
        Watched::Cluster => {
            let mut in_turn = IN_TURN.lock().await;
            let plane = match in_turn.clone() {
                Some(plane) => {
                    empty(&plane).await;
                    plane
                }
                None => Arc::clone(in_turn.insert(start().await)),
            };
            (plane, PlaneUse::InTurn(in_turn))
        }
    }
}

/// Starts one with our CRDs and the manager's roles.
pub(crate) async fn start() -> Arc<ControlPlane> {
    let plane = ControlPlane::builder()
        .controller_manager(true)
        .crds(pko_api::crd::all())
        .start()
        .await
        .unwrap();
    grant(&plane).await;
    Arc::new(plane)
}

/// Removes what managers of earlier tests looked after.
async fn empty(plane: &ControlPlane) {
    remove_all::<Decoded<Stack>>(plane).await;
    remove_all::<Decoded<Update>>(plane).await;
    remove_all::<Decoded<Workspace>>(plane).await;
    remove_all::<Decoded<Program>>(plane).await;
}

async fn remove_all<K>(plane: &ControlPlane)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let client = plane.client().unwrap();
    let everywhere = Api::<K>::all(client.clone());
    eventually("the objects of earlier tests to be gone", async || {
        // Metadata, because some tests leave objects that kube can't decode.
        let left = everywhere.list_metadata(&ListParams::default()).await;
        let left = left.unwrap();
        for object in &left {
            let namespace = object.namespace().unwrap_or_default();
            let objects = Api::<K>::namespaced(client.clone(), &namespace);
            let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            // One that is gone already needs neither
            let name = object.name_any();
            let parameters = PatchParams::default();
            let _ = objects.patch_metadata(&name, &parameters, &none).await;
            let _ = objects.delete(&name, &DeleteParams::default()).await;
        }
        match left.items.len() {
            0 => Ok(()),
            left => Err(left),
        }
    })
    .await
    .unwrap();
}
