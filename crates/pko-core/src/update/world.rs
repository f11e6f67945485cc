//! What is known of an Update, what can be asked, and what can be done.

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use pko_api::{Update, Workspace, auto::v1alpha1::UpdateStatus, names::events::UpdateEvent};

use super::RunOutcome;
use crate::{
    Known,
    queue::{Request, Turn},
};

/// What is known of an Update.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The object.
    pub update: Update,
    /// Whether its Stack waits for its result.
    pub awaited: Known<bool>,
    /// Its Workspace, if there is one.
    pub workspace: Known<Option<Workspace>>,
    /// Whether it is its turn.
    pub turn: Known<Turn>,
    /// The agent that runs it, or would.
    pub agent: Known<Agent>,
    /// Its run.
    pub run: Known<Result<Run, RunError>>,
    /// The name of the Secret that has its outputs, or why there is none.
    pub outputs: Known<Result<String, String>>,
    /// Since when this manager leads: no other one has started a run after that.
    pub leading_since: Timestamp,
}

/// The agent of a workspace, as it is found now. Its *instance* is the identity of its journal: another one knows
/// nothing of the runs that were begun in this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agent {
    /// It answers.
    Here(String),
    /// It does not.
    Unreachable {
        /// Which one it is, if that is known.
        instance: Option<String>,
        /// Why it can't be reached.
        message: String,
    },
}

impl Agent {
    /// Which one it is, if that is known.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        match self {
            Self::Here(instance) => Some(instance),
            Self::Unreachable { instance, .. } => instance.as_deref(),
        }
    }
}

/// A run, as the workspace's agent tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Run {
    /// It waits or goes on.
    Running,
    /// It has ended.
    Ended(Box<RunOutcome>),
    /// It was to be canceled, and was never begun.
    Unknown,
}

/// Why nothing is known of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The agent did not answer; it may the next time.
    Unreachable(String),
    /// The agent refused to start it.
    Refused(String),
    /// It was begun, and nobody can say what became of it: upstream's agents forget a run with its caller.
    Lost(String),
}

/// What can be asked about an Update.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Whether the Stack of this name waits for its result, as the API server itself says.
    Awaited(String),
    /// The Workspace of this name; absence is believed from a live read only.
    Workspace(String),
    /// Whether it is the turn of its run; one that has begun keeps it.
    Turn(Box<TurnQuestion>),
    /// The agent of this Workspace: it is spoken to.
    Agent(Box<Workspace>),
    /// The run, which is started if it was not: its id is the Update's uid, so it runs once. The
    /// status is published first.
    Run(Box<Workspace>, Option<Box<UpdateStatus>>),
    /// The run, which is told to end, gently. It is not started.
    Cancel(Box<Workspace>),
    /// Where the outputs are kept. They are there before the result is recorded; keeping them twice is keeping
    /// them once.
    KeepOutputs(Box<Secret>),
}

/// What is asked of the run queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnQuestion {
    /// The run, and what it works on.
    pub request: Request,
    /// It is under way already.
    pub has_begun: bool,
}

/// An answer to a [`Question`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To [`Question::Awaited`].
    Awaited(bool),
    /// To [`Question::Workspace`].
    Workspace(Option<Box<Workspace>>),
    /// To [`Question::Turn`].
    Turn(Turn),
    /// To [`Question::Agent`].
    Agent(Agent),
    /// To [`Question::Run`] and [`Question::Cancel`].
    Run(Result<Run, RunError>),
    /// To [`Question::KeepOutputs`]: the name of the Secret, or why it was refused for good.
    Outputs(Result<String, String>),
}

/// What can be done for an Update.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Writes the status.
    PatchStatus(Box<UpdateStatus>),
    /// Makes the Update its Workspace's own.
    Adopt(OwnerReference),
    /// Gives its turn back: it can't use it now.
    GiveBackTurn,
    /// Follows the run, so that its end makes this Update interesting again.
    FollowRun,
    /// Lets the agent forget the run: its result is recorded.
    AcknowledgeRun,
    /// Deletes the Update.
    Delete,
    /// Removes the Stack's finalizer from it.
    LetGo,
    /// Tells the user. Where an event can't be written, nothing else is held up.
    Emit(Event),
    /// Tells the user of the Workspace that its agent can't be reached.
    WarnOfWorkspace(String),
}

/// An event on the Update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its reason.
    pub reason: UpdateEvent,
    /// Its text.
    pub message: String,
    /// It is a warning.
    pub warning: bool,
}

impl World {
    /// A world in which only the Update is known, for a manager that leads since then.
    #[must_use]
    pub fn new(update: Update, leading_since: Timestamp) -> Self {
        Self {
            update,
            awaited: Known::Unknown,
            workspace: Known::Unknown,
            turn: Known::Unknown,
            agent: Known::Unknown,
            run: Known::Unknown,
            outputs: Known::Unknown,
            leading_since,
        }
    }

    /// Takes in an answer.
    pub fn learn(&mut self, answer: Answer) {
        match answer {
            Answer::Awaited(awaited) => self.awaited = Known::Known(awaited),
            Answer::Workspace(workspace) => {
                self.workspace = Known::Known(workspace.map(|workspace| *workspace));
            }
            Answer::Turn(turn) => self.turn = Known::Known(turn),
            Answer::Agent(agent) => self.agent = Known::Known(agent),
            Answer::Run(run) => self.run = Known::Known(run),
            Answer::Outputs(kept) => self.outputs = Known::Known(kept),
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
    pub(super) fn after_publishing(&self, status: Option<UpdateStatus>) -> Self {
        let mut case = self.clone();
        if status.is_some() {
            case.world.update.status = status;
        }
        case
    }
}
