//! What is known of a Workspace, what can be asked, and what can be done.

use std::time::Duration;

use jiff::Timestamp;
use pko_api::{Workspace, auto::v1alpha1::WorkspaceStatus, names::events::WorkspaceEvent};

use crate::Known;

/// What is known of a Workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The object.
    pub workspace: Workspace,
    /// Whether the Stack waits for it whose destroy it was made for.
    pub awaited: Known<bool>,
    /// Where it runs.
    pub place: Known<Place>,
    /// The version of its Pulumi CLI, without `v`, as its agent says.
    pub version: Known<Result<String, AgentError>>,
    /// Whether packages are installed and stacks selected.
    pub preparation: Known<Preparation>,
}

/// What a Workspace reports while the agent of a workspace without a pod starts.
pub const WAITING_FOR_AGENT: &str = "Waiting for the workspace's agent";

/// Where a workspace runs: a pod or a process, the rest of the operator does not know which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is being made.
    Starting(String),
    /// It is being replaced, or waits to be.
    Rolling(String),
    /// It could not become what is wanted, so it was removed to be made anew.
    Migrated,
    /// The agent should listen there.
    Running(Running),
    /// There is none, because nobody needs one; the next run gets one.
    Asleep,
    /// It can't be made from this spec.
    Impossible(String),
    /// Something is wrong with it; that may pass.
    Failed(String),
}

/// A place with an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
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
pub enum Preparation {
    /// All is done.
    Done,
    /// It goes on; its end is told.
    UnderWay(Stage),
    /// It went wrong, and is tried again.
    Failed {
        /// While doing what.
        stage: Stage,
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
pub enum Stage {
    /// It installs packages and plugins.
    Installing,
    /// It selects and configures stacks.
    Initializing,
}

/// What can be asked about a Workspace.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Whether the Stack of this name waits for it; only the API server itself is believed that it does not.
    Awaited(String),
    /// Where it runs; it is started if it does not.
    Place,
    /// Which version of Pulumi's CLI its agent has.
    Version,
    /// Whether its agent is prepared; it is set to work if not.
    Preparation,
}

/// An answer to a [`Question`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Question::Awaited`].
    Awaited(bool),
    /// To [`Question::Place`].
    Place(Place),
    /// To [`Question::Version`].
    Version(Result<String, AgentError>),
    /// To [`Question::Preparation`].
    Preparation(Preparation),
}

/// What can be done for a Workspace.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Writes the status.
    PatchStatus(Box<WorkspaceStatus>),
    /// Ends what runs, and removes its files.
    Remove,
    /// Deletes the Workspace, as it is now.
    Delete,
    /// Tells the user. Where an event can't be written, nothing else is held up.
    Emit(Event),
}

/// An event on the Workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its reason.
    pub reason: WorkspaceEvent,
    /// Its text.
    pub message: String,
    /// It is a warning.
    pub warning: bool,
}

impl World {
    /// A world in which only the Workspace is known.
    #[must_use]
    pub fn new(workspace: Workspace) -> Self {
        Self {
            workspace,
            awaited: Known::Unknown,
            place: Known::Unknown,
            version: Known::Unknown,
            preparation: Known::Unknown,
        }
    }

    /// Takes in an answer.
    pub fn learn(&mut self, answer: Answer) {
        match answer {
            Answer::Awaited(awaited) => self.awaited = Known::Known(awaited),
            Answer::Place(place) => self.place = Known::Known(place),
            Answer::Version(version) => self.version = Known::Known(version),
            Answer::Preparation(preparation) => self.preparation = Known::Known(preparation),
        }
    }
}

/// A case: a world and the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What is known.
    pub world: World,
    /// The time.
    pub now: Timestamp,
}
