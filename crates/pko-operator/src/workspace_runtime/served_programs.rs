//! The archives that workspaces fetch of Programs.

use std::sync::Arc;

use kube::runtime::reflector::{ObjectRef, Store};
use pko_api::{Decoded, Program, Workspace, auto::v1alpha1::FluxArtifact};
use pko_core::program::{fetched_program, served_artifact};

use crate::server::programs::ProgramUrls;

/// The Programs, and where they are served.
#[derive(Clone)]
pub(crate) struct ServedPrograms {
    programs: Store<Decoded<Program>>,
    urls: Arc<ProgramUrls>,
}

impl ServedPrograms {
    pub(crate) fn new(programs: Store<Decoded<Program>>, urls: Arc<ProgramUrls>) -> Self {
        Self { programs, urls }
    }

    /// The archive that this operator serves for the Program that a workspace fetches. Its address
    /// in the Workspace may be one of another operator, without a seal.
    pub(super) fn artifact(&self, workspace: &Workspace) -> Option<FluxArtifact> {
        let fetched = workspace.spec.flux.as_ref()?;
        let namespace = workspace.metadata.namespace.as_deref()?;
        let name = fetched_program(workspace)?;
        let program = self.programs.get(&ObjectRef::new(name).within(namespace))?;
        served_artifact(program.as_result().ok()?, fetched, self.urls.as_ref())
    }
}
