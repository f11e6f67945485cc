//! Where workspaces run: in pods, or beside the manager as processes. Nobody outside knows which it is.

mod pod;
mod process;

use std::fmt::Write as _;

use pko_api::{Update, Workspace};
use pko_core::workspace::RuntimeState;
use pko_kube::RequestError;
use sha2::{Digest as _, Sha256};

pub(crate) use pod::{Children, PodSettings, Pods};
pub(crate) use process::{Processes, Tokens, Wake};

use crate::agents::Credentials;

/// The agent of a workspace.
#[derive(Clone)]
pub(crate) struct AgentAt {
    /// Where it listens: `unix:PATH` or `host:port`.
    pub(crate) address: String,
    /// What it wants to see.
    pub(crate) credentials: Credentials,
    /// Whose journal it keeps: another one knows nothing of runs that were begun in this one.
    pub(crate) instance: String,
    /// It is one of ours, and owns its runs; upstream's does not.
    pub(crate) owns_runs: bool,
}

/// Where workspaces run.
pub(crate) enum Places {
    /// In pods of the cluster.
    Pods(Box<Pods>),
    /// Beside the manager.
    Processes(Processes),
}

impl Places {
    /// Comes when everything is known that there is of workspaces; says whether that will ever be.
    pub(crate) async fn are_known(&self) -> bool {
        match self {
            Self::Pods(pods) => pods.children.are_filled().await,
            Self::Processes(_) => true,
        }
    }

    /// Finds where a workspace runs, or starts it.
    pub(crate) async fn ensure(&self, workspace: &Workspace) -> RuntimeState {
        match self {
            Self::Pods(pods) => pods.ensure(workspace).await,
            Self::Processes(processes) => processes.ensure(workspace).await,
        }
    }

    /// The agent of a workspace, if there is one now.
    pub(crate) fn agent(&self, workspace: &Workspace) -> Option<AgentAt> {
        match self {
            Self::Pods(pods) => pods.agent(workspace),
            Self::Processes(processes) => processes.agent(workspace),
        }
    }

    /// Remembers that this very agent refuses this manager.
    pub(crate) fn mark_refused(&self, instance: &str) {
        if let Self::Pods(pods) = self {
            pods.mark_refused(instance);
        }
    }

    /// Why an Update may not begin in a workspace, if that is so.
    pub(crate) fn refuses(&self, workspace: &Workspace, update: &Update) -> Option<&'static str> {
        match self {
            Self::Pods(pods) => pods.refuses(workspace, update),
            Self::Processes(_) => None,
        }
    }

    /// Whether a workspace's agent has installed packages and selected stacks.
    pub(crate) fn is_initialized(&self, workspace: &Workspace) -> bool {
        match self {
            Self::Pods(pods) => pods.is_initialized(workspace),
            Self::Processes(processes) => processes.is_initialized(workspace),
        }
    }

    /// Remembers that, for this very agent.
    pub(crate) async fn mark_initialized(
        &self,
        workspace: &Workspace,
        instance: &str,
    ) -> Result<(), MarkError> {
        match self {
            Self::Pods(pods) => Ok(pods.mark_initialized(workspace, instance).await?),
            Self::Processes(processes) => Ok(processes.mark_initialized(workspace)?),
        }
    }

    /// Where a file of the workspace's pod really is.
    pub(crate) fn local_path(&self, workspace: &Workspace, path: &str) -> String {
        match self {
            Self::Pods(_) => path.to_owned(),
            Self::Processes(processes) => processes.local_path(workspace, path),
        }
    }

    /// Ends what runs for a Workspace that goes; a pod goes by itself, with its owner.
    pub(crate) fn remove(&self, namespace: &str, name: &str, uid: &str) {
        if let Self::Processes(processes) = self {
            processes.remove(namespace, name, uid);
        }
    }

    /// The workspaces that nobody else would remove: namespace, name, and the uid of the Workspace.
    pub(crate) fn recorded(&self) -> Vec<(String, String, String)> {
        match self {
            Self::Pods(_) => Vec::new(),
            Self::Processes(processes) => processes.recorded(),
        }
    }
}

/// Why it could not be remembered that a workspace is initialized.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MarkError {
    #[error("{}", .0.full_text())]
    Request(#[from] RequestError),
    #[error("failed to write the workspace's record")]
    Record(#[from] std::io::Error),
}

/// The first bytes of a text's hash, in hexadecimal.
fn short_hash(text: &[u8], bytes: usize) -> String {
    Sha256::digest(text)
        .iter()
        .take(bytes)
        .fold(String::new(), |mut hash, byte| {
            let _ = write!(hash, "{byte:02x}");
            hash
        })
}
