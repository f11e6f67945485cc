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
    /// Its Workspace, if there is one.
    pub workspace: Known<Option<Workspace>>,
    /// Whether it is its turn.
    pub turn: Known<Turn>,
    /// Its run.
    pub run: Known<Result<Run, RunError>>,
}

/// A run, as the workspace's agent tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Run {
    /// It waits or goes on.
    Running,
    /// It has ended.
    Ended(RunOutcome),
}

/// Why nothing is known of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The agent did not answer; it may the next time.
    Unreachable(String),
    /// The agent refused to start it.
    Refused(String),
}

/// What can be asked about an Update.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// The Workspace of this name; absence is believed from a live read only.
    Workspace(String),
    /// Whether it is the turn of its run; one that has begun keeps it.
    Turn(Box<TurnQuestion>),
    /// The run, which is started if it was not: its id is the Update's uid, so it runs once. The
    /// status is published first.
    Run(Box<Workspace>, Option<Box<UpdateStatus>>),
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
    /// To [`Question::Workspace`].
    Workspace(Option<Box<Workspace>>),
    /// To [`Question::Turn`].
    Turn(Turn),
    /// To [`Question::Run`].
    Run(Result<Run, RunError>),
}

/// What can be done for an Update.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Writes the status.
    PatchStatus(Box<UpdateStatus>),
    /// Makes the Update its Workspace's own.
    Adopt(OwnerReference),
    /// Keeps the outputs; one that is there already is this one.
    CreateOutputs(Box<Secret>),
    /// Follows the run, so that its end makes this Update interesting again.
    FollowRun,
    /// Ends the run, gently, if there is one: an agent that can't be told is no reason to stop here.
    CancelRun,
    /// Lets the agent forget the run: its result is recorded.
    AcknowledgeRun,
    /// Deletes the Update.
    Delete,
    /// Tells the user. Where an event can't be written, nothing else is held up.
    Emit(Event),
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
    /// A world in which only the Update is known.
    #[must_use]
    pub fn new(update: Update) -> Self {
        Self {
            update,
            workspace: Known::Unknown,
            turn: Known::Unknown,
            run: Known::Unknown,
        }
    }

    /// Takes in an answer.
    pub fn learn(&mut self, answer: Answer) {
        match answer {
            Answer::Workspace(workspace) => {
                self.workspace = Known::Known(workspace.map(|workspace| *workspace));
            }
            Answer::Turn(turn) => self.turn = Known::Known(turn),
            Answer::Run(run) => self.run = Known::Known(run),
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
