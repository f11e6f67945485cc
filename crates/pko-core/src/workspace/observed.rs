//! What is known of a Workspace, what can be asked, and what can be done.

use std::time::Duration;

use pko_api::{Workspace, auto::v1alpha1::WorkspaceStatus, names::events::WorkspaceEvent};

use crate::{Event, Fact};

/// What is known of a Workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedWorkspace {
    /// The object.
    pub workspace: Workspace,
    /// Whether the Stack waits for it whose destroy it was made for.
    pub awaited: Fact<bool>,
    /// Where it runs.
    pub runtime: Fact<RuntimeState>,
    /// The version of its Pulumi CLI, without `v`, as its agent says.
    pub version: Fact<Result<String, AgentError>>,
    /// Whether packages are installed and stacks selected.
    pub setup: Fact<SetupState>,
}

/// What a Workspace reports while the agent of a workspace without a pod starts.
pub const WAITING_FOR_AGENT: &str = "Waiting for the workspace's agent";

/// Where a workspace runs: a pod or a process, the rest of the operator does not know which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuntimeState {
    /// It is being made.
    Starting(String),
    /// It is being replaced, or waits to be.
    Rolling(String),
    /// It could not become what is wanted, so it was removed to be made anew.
    Migrated,
    /// The agent should listen there.
    Running(AgentEndpoint),
    /// There is none, because nobody needs one; the next run gets one.
    Idle,
    /// It can't be made from this spec.
    Invalid(String),
    /// Something is wrong with it; that may pass.
    Failed(String),
}

/// A place with an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentEndpoint {
    /// Where the agent listens, as the status shows it.
    pub address: String,
    /// What runs there, such as `pod "demo-workspace-0"`.
    pub name: String,
    /// An operator of before has made it, and the next run gets a new one.
    pub is_outdated: bool,
    /// When to look at it again, even if nothing is heard of it.
    pub look_again: Duration,
}

/// Why an agent says nothing of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentError {
    /// It does not answer; it may the next time.
    Unreachable(String),
    /// It answered with an error.
    Refused {
        /// A word for the condition: the name of a gRPC code, or what the agent calls it.
        reason: String,
        /// What it said.
        message: String,
    },
}

/// How far a new agent is with what it has to do once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupState {
    /// All is done.
    Done,
    /// It goes on; its end is told.
    InProgress(SetupStage),
    /// It went wrong, and is tried again.
    Failed {
        /// While doing what.
        stage: SetupStage,
        /// What went wrong.
        message: String,
        /// It may pass by itself.
        is_transient: bool,
        /// When it is tried again.
        retry_in: Duration,
    },
}

/// What a new agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupStage {
    /// It installs packages and plugins.
    Installing,
    /// It selects and configures stacks.
    Initializing,
}

/// What a Workspace's rules can look up.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkspaceRead {
    /// Whether the Stack of this name waits for the Workspace. Only a live read proves that it does not.
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

/// What can be done for a Workspace.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkspaceEffect {
    /// Writes the status.
    PatchStatus(Box<WorkspaceStatus>),
    /// Ends what runs, and removes its files.
    RemoveRuntime,
    /// Deletes the Workspace, as it is now.
    Delete,
    /// Tells the user. Where an event can't be written, nothing else is held up.
    Emit(Event<WorkspaceEvent>),
}

impl ObservedWorkspace {
    /// A world in which only the Workspace is known.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self {
            workspace,
            awaited: Fact::Unknown,
            runtime: Fact::Unknown,
            version: Fact::Unknown,
            setup: Fact::Unknown,
        }
    }
}
