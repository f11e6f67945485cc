//! The observed state of a Workspace, its reads and writes, and its effects.

use std::{sync::Arc, time::Duration};

use pko_api::{Workspace, auto::v1alpha1::WorkspaceStatus, names::events::WorkspaceEvent};

use crate::{Event, Fact};

/// The observed state of a Workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedWorkspace {
    /// Shared, because each decision copies the observed state, and a Workspace can be large.
    pub workspace: Arc<Workspace>,
    /// Whether the Stack for whose destroy it was created still waits for it.
    pub awaited: Fact<bool>,
    pub runtime: Fact<RuntimeState>,
    /// The version of the Pulumi CLI, without `v`, as reported by the agent.
    pub version: Fact<Result<String, AgentError>>,
    pub setup: Fact<SetupState>,
}

/// The condition's message while the agent of a workspace without a pod starts.
pub const WAITING_FOR_AGENT: &str = "Waiting for the workspace's agent";

/// The state of a workspace's pod or process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeState {
    Starting(String),
    /// It is being replaced, or will be.
    Rolling(String),
    /// An immutable field changed, so it was deleted and will be created again.
    Migrated,
    Running(AgentEndpoint),
    /// Scaled to zero until the next run.
    Idle,
    /// The spec is invalid.
    Invalid(String),
    /// It failed, and may recover.
    Failed(String),
}

/// A running agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentEndpoint {
    /// The agent's address, for the status.
    pub address: String,
    /// Such as `pod "demo-workspace-0"`.
    pub name: String,
    /// Another version of the operator created the pod, so the next run gets a new one.
    pub is_outdated: bool,
    /// The requeue while no event arrives.
    pub requeue_after: Duration,
}

/// Why a request to an agent failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentError {
    /// No response; retried.
    Unreachable(String),
    /// The agent returned an error.
    Refused {
        /// A reason for the condition: the name of a gRPC code, or the agent's own.
        reason: String,
        message: String,
    },
}

/// The progress of an agent's setup, which runs once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupState {
    Done,
    /// The runtime triggers a reconcile when it ends.
    InProgress(SetupStage),
    /// Retried after `retry_in`.
    Failed {
        stage: SetupStage,
        message: String,
        /// A retry may succeed without a change.
        is_transient: bool,
        retry_in: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupStage {
    /// Packages and plugins are being installed.
    Installing,
    /// Stacks are being selected and configured.
    Initializing,
}

/// What a Workspace's rules can look up.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkspaceRead {
    /// Whether the Stack of this name waits for the Workspace. Only a live read proves that it does
    /// not.
    Awaited(String),
    /// The version of the agent's Pulumi CLI.
    Version,
}

/// What a Workspace's rules can change before they finish.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkspaceWrite {
    /// Creates or updates the pod or process, and returns its state.
    EnsureRuntime,
    /// Starts the agent's setup unless it has been started, and returns its progress.
    SetUp,
}

/// A response to a [`WorkspaceRead`] or a [`WorkspaceWrite`].
#[derive(Clone, Debug, PartialEq)]
pub enum WorkspaceResponse {
    /// To [`WorkspaceRead::Awaited`].
    Awaited(bool),
    /// To [`WorkspaceWrite::EnsureRuntime`].
    Runtime(RuntimeState),
    /// To [`WorkspaceRead::Version`].
    Version(Result<String, AgentError>),
    /// To [`WorkspaceWrite::SetUp`].
    Setup(SetupState),
}

/// A change that ends a pass.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkspaceEffect {
    PatchStatus(Box<WorkspaceStatus>),
    /// Stops the pod or process, and removes its files.
    RemoveRuntime,
    /// Deletes the Workspace, if it has not changed.
    Delete,
    /// A failure to write an event is only logged.
    Emit(Event<WorkspaceEvent>),
}

impl ObservedWorkspace {
    /// An observed state with only the Workspace.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self {
            workspace: Arc::new(workspace),
            awaited: Fact::Unknown,
            runtime: Fact::Unknown,
            version: Fact::Unknown,
            setup: Fact::Unknown,
        }
    }
}
