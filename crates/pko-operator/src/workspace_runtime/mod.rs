//! How workspaces run: as pods of the cluster, or as processes beside the manager.
//!
//! Controllers see [`WorkspaceRuntime`] only. Another runtime is another folder here and one line
//! in `start`.

mod pod;
mod process;
mod served_programs;

use futures::future::BoxFuture;
use pko_api::{Update, Workspace};
use pko_core::workspace::RuntimeState;
use pko_kube::RequestError;
use sha2::{Digest as _, Sha256};

pub(crate) use pod::{Children, PodRuntime, PodRuntimeSettings};
pub(crate) use process::ProcessRuntime;
pub(crate) use served_programs::ServedPrograms;

use crate::agents::Credentials;

/// The agent of a workspace, and how to call it.
#[derive(Clone)]
pub(crate) struct AgentTarget {
    /// `unix:PATH` or `host:port`.
    pub(crate) address: String,
    pub(crate) credentials: Credentials,
    /// Identifies the agent's journal: another instance does not know the runs of this one.
    pub(crate) instance: String,
    /// All agents of a namespace share what the manager has for their messages.
    pub(crate) namespace: String,
    /// False for an agent of upstream, whose runs last as long as the call that started them.
    pub(crate) owns_runs: bool,
}

/// Runs workspaces and their agents.
pub(crate) trait WorkspaceRuntime: Send + Sync {
    /// Waits until all existing workspaces are known. Returns false if that never happens.
    fn wait_until_synced(&self) -> BoxFuture<'_, bool>;

    /// Starts a workspace unless it runs, or brings it up to date.
    fn ensure<'a>(&'a self, workspace: &'a Workspace) -> BoxFuture<'a, RuntimeState>;

    /// The agent of a workspace, if it has one now.
    fn agent(&self, workspace: &Workspace) -> Option<AgentTarget>;

    /// Whether this instance of a workspace's agent certainly does not exist any more.
    fn is_gone<'a>(&'a self, _workspace: &'a Workspace, _instance: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }

    /// Records that this instance of an agent rejects the manager's credentials.
    fn record_rejection(&self, _instance: &str) {}

    /// Why an Update must not start in a workspace, if so.
    fn start_blocker(&self, _workspace: &Workspace, _update: &Update) -> Option<&'static str> {
        None
    }

    /// Whether the agent of a workspace has installed packages and selected stacks.
    fn is_initialized(&self, workspace: &Workspace) -> bool;

    /// Records that this instance of an agent has done so.
    fn mark_initialized<'a>(
        &'a self,
        workspace: &'a Workspace,
        instance: &'a str,
    ) -> BoxFuture<'a, Result<(), MarkError>>;

    /// Maps a path in the workspace's container to the path that its agent sees.
    fn local_path(&self, _workspace: &Workspace, path: &str) -> String {
        path.to_owned()
    }

    /// Stops a workspace whose Workspace is deleted, if Kubernetes does not do so.
    fn remove(&self, _workspace: &WorkspaceId) {}

    /// The workspaces that only [`WorkspaceRuntime::remove`] stops.
    fn unmanaged(&self) -> Vec<WorkspaceId> {
        Vec::new()
    }
}

/// One Workspace object, not a later one of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkspaceId {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// Why a workspace could not be marked as initialized.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MarkError {
    #[error("{}", .0.full_text())]
    Request(#[from] RequestError),
    #[error("failed to write the workspace's record")]
    Record(#[from] std::io::Error),
}

/// The first bytes of a text's SHA-256, in hexadecimal.
fn short_hash(text: &[u8], bytes: usize) -> String {
    let hash = Sha256::digest(text);
    hex::encode(hash.get(..bytes).unwrap_or(&hash))
}
