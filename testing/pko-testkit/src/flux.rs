//! Flux as a Stack sees it: its own CRDs, sources with source-controller's statuses, and a server
//! for their artifacts.
//!
//! source-controller does not run: a test writes a [`SourceState`] instead.
//!
//! ```no_run
//! # async fn test(namespace: &pko_testkit::TestNamespace, plane: &pko_testkit::ControlPlane) {
//! use pko_testkit::{StackBuilder, flux::{self, ArtifactServer, SourceKind, TestSource, SourceState}};
//!
//! flux::install(plane).await.unwrap();
//! let server = ArtifactServer::start().unwrap();
//! let source = TestSource::new(SourceKind::GitRepository, namespace.name(), "infra");
//! namespace.create_object(source.object()).await.unwrap();
//! let artifact = server.publish(&source, &source.revision("one"), &[("Pulumi.yaml", "name: demo")]);
//! source.write(&namespace.client(), &SourceState::Ready(artifact)).await.unwrap();
//! let stack = StackBuilder::new("demo").set("/spec/fluxSource/sourceRef", source.reference());
//! # }
//! ```

use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::{JoinError, spawn_blocking};

mod archive;
mod server;
mod source;
mod status;

pub use server::ArtifactServer;
pub use source::{Artifact, SourceKind, TestSource};
pub use status::SourceState;

use crate::components::{ComponentsError, GoModule};
use crate::control_plane::{ControlPlane, InstallError};
use crate::fixtures::{self, LoadError};

/// The module that carries the CRDs.
const SOURCE_CONTROLLER: GoModule = GoModule {
    path: "github.com/fluxcd/source-controller",
    folder: "config/crd/bases",
    go_mod: include_str!("../components/flux/go.mod"),
    go_sum: include_str!("../components/flux/go.sum"),
};

/// As which field manager source-controller writes.
const CONTROLLER: &str = "source-controller";

/// Flux's own CRDs of sources.
///
/// Blocks while they are downloaded, which happens once per cache.
pub fn crds() -> Result<Vec<Value>, FluxError> {
    Ok(fixtures::load(&SOURCE_CONTROLLER.files()?)?)
}

/// Installs all of Flux's CRDs, and waits until their kinds can be used.
pub async fn install(plane: &ControlPlane) -> Result<(), FluxError> {
    let crds = spawn_blocking(crds).await??;
    Ok(plane.install_crds(&crds).await?)
}

/// Installs the CRD of one kind only.
pub async fn install_kind(plane: &ControlPlane, kind: SourceKind) -> Result<(), FluxError> {
    let mut crds = spawn_blocking(crds).await??;
    crds.retain(|crd| {
        crd.pointer("/spec/names/kind").and_then(Value::as_str) == Some(kind.as_str())
    });
    Ok(plane.install_crds(&crds).await?)
}

impl TestSource {
    /// Writes a status, as source-controller would for the generation that is there now.
    pub async fn write(
        &self,
        client: &Client,
        state: &SourceState,
    ) -> Result<DynamicObject, FluxError> {
        let api = self.api(client);
        let generation = api.get(self.name()).await?.metadata.generation;
        let now = jiff::Timestamp::now().round(jiff::Unit::Second);
        let status = state.status(
            self.kind(),
            generation.unwrap_or(1),
            now.unwrap_or_default(),
        );
        // The fields that a state does not have are taken away, as that controller does
        let mut whole = json!({ "artifact": null });
        json_merge(&mut whole, status);
        let patch = json!({ "status": whole });
        let parameters = PatchParams {
            field_manager: Some(CONTROLLER.to_owned()),
            ..PatchParams::default()
        };
        Ok(api
            .patch_status(self.name(), &parameters, &Patch::Merge(patch))
            .await?)
    }

    /// The sources of its kind in its namespace.
    #[must_use]
    pub fn api(&self, client: &Client) -> Api<DynamicObject> {
        let (group, version) = source::API_VERSION.split_once('/').unwrap_or_default();
        let kind = GroupVersionKind::gvk(group, version, self.kind().as_str());
        let resource = ApiResource::from_gvk_with_plural(&kind, self.kind().plural());
        Api::namespaced_with(client.clone(), self.namespace(), &resource)
    }
}

/// Sets the fields of one object in another.
fn json_merge(target: &mut Value, fields: Value) {
    if let (Value::Object(target), Value::Object(fields)) = (target, fields) {
        target.extend(fields);
    }
}

/// Why Flux can't be pretended.
#[derive(thiserror::Error)]
pub enum FluxError {
    #[error(transparent)]
    Components(#[from] ComponentsError),
    /// The CRDs can't be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The CRDs can't be installed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// The download was cut off.
    #[error("failed to wait for the download of Flux's CRDs")]
    Download(#[from] JoinError),
    /// The API server refuses a status.
    #[error("failed to write the status of a source")]
    Status(#[from] kube::Error),
}

crate::error_text::debug_is_text!(FluxError);
