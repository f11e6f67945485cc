//! What is known of a Workspace, what can be asked, and what can be done.

use jiff::Timestamp;
use pko_api::{Workspace, auto::v1alpha1::WorkspaceStatus, names::events::WorkspaceEvent};

use crate::Known;

/// What is known of a Workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The object.
    pub workspace: Workspace,
    /// Where it runs.
    pub place: Known<Place>,
    /// What its agent says.
    pub agent: Known<Result<Agent, AgentError>>,
}

/// Where a workspace runs: a pod or a process, the rest of the operator does not know which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is being made.
    Starting(String),
    /// The agent should listen there.
    Running {
        /// Its address.
        address: String,
    },
    /// It can't be made from this spec.
    Impossible(String),
    /// It could not be made; that may pass.
    Failed(String),
}

/// An agent that is ready for runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The version of its Pulumi CLI, without `v`.
    pub pulumi_version: String,
}

/// Why an agent is not ready for runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentError {
    /// It does not answer; it may the next time.
    Unreachable(String),
    /// Packages or plugins could not be installed.
    Installation(String),
}

/// What can be asked about a Workspace.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Where it runs; it is started if it does not.
    Place,
    /// Whether the agent at this address is ready. Where there is a status, packages are installed, too, and
    /// it is published first unless it is stored already.
    Agent(String, Option<Box<WorkspaceStatus>>),
}

/// An answer to a [`Question`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Question::Place`].
    Place(Place),
    /// To [`Question::Agent`].
    Agent(Result<Agent, AgentError>),
}

/// What can be done for a Workspace.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Writes the status.
    PatchStatus(Box<WorkspaceStatus>),
    /// Ends what runs, and removes its files.
    Remove,
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
            place: Known::Unknown,
            agent: Known::Unknown,
        }
    }

    /// Takes in an answer.
    pub fn learn(&mut self, answer: Answer) {
        match answer {
            Answer::Place(place) => self.place = Known::Known(place),
            Answer::Agent(agent) => self.agent = Known::Known(agent),
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

impl Case {
    /// The same case after a question had this status published: that is what is stored now.
    pub(super) fn after_publishing(&self, status: Option<WorkspaceStatus>) -> Self {
        let mut case = self.clone();
        if status.is_some() {
            case.world.workspace.status = status;
        }
        case
    }
}
