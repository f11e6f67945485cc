//! What is known of an Update, what can be asked, and what can be done.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use pko_api::{Update, Workspace, auto::v1alpha1::UpdateStatus, names::events::UpdateEvent};

use super::RunOutcome;
use crate::{
    Event, Fact,
    run_queue::{Admission, RunRequest},
};

/// What is known of an Update.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedUpdate {
    /// The object.
    pub update: Update,
    /// Whether its Stack waits for its result.
    pub awaited: Fact<bool>,
    /// Its Workspace, if there is one.
    pub workspace: Fact<Option<Workspace>>,
    /// Whether it is its turn.
    pub admission: Fact<Admission>,
    /// The agent that runs it, or would.
    pub agent: Fact<AgentState>,
    /// Its run.
    pub run: Fact<Result<RunProgress, RunError>>,
    /// The name of the Secret that has its outputs, or why there is none.
    pub outputs: Fact<Result<String, String>>,
    /// The runs that its agent got before it.
    pub preceding_runs: Fact<PrecedingRuns>,
    /// The time limit of Updates that set none.
    pub run_timeout: Option<Duration>,
    /// Since when this manager leads: no other one has started a run after that.
    pub leading_since: Timestamp,
}

/// The agent of a workspace, as it is found now. Its *instance* is the identity of its journal: another one knows
/// nothing of the runs that were begun in this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// It answers.
    Reachable(String),
    /// It does not.
    Unreachable {
        /// Which one it is, if that is known.
        instance: Option<String>,
        /// Why it can't be reached.
        message: String,
    },
    /// The one in which the run was begun does not exist any more, and there is no other yet.
    Gone,
}

impl AgentState {
    /// Which one it is, if that is known.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        match self {
            Self::Reachable(instance) => Some(instance),
            Self::Unreachable { instance, .. } => instance.as_deref(),
            Self::Gone => None,
        }
    }
}

/// A run, as the workspace's agent tells.
#[derive(Clone, Debug, PartialEq)]
pub enum RunProgress {
    /// It waits or goes on.
    Running,
    /// It has ended.
    Ended(Box<RunOutcome>),
    /// It was canceled before it was started.
    NotStarted,
}

/// The runs that an agent got before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrecedingRuns {
    /// One of them has not ended.
    InProgress,
    /// All have ended, the last one at this time.
    Ended(Option<Timestamp>),
}

/// Why nothing is known of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The agent did not answer; it may the next time.
    Unreachable(String),
    /// The agent refused to start it.
    Refused(String),
    /// What the agent reports about it is more than the manager takes, and will be the next time.
    Oversized(String),
    /// It was begun, and nobody can say what became of it: upstream's agents forget a run with its caller.
    Lost(String),
}

/// What an Update's rules can look up.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateRead {
    /// Whether the Stack of this name waits for the result, by a live read.
    Awaited(String),
    /// The Workspace of this name. Only a live read proves that it does not exist.
    Workspace(String),
    /// The runs that the agent got before this one.
    PrecedingRuns,
}

/// What an Update's rules can change before they finish.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateWrite {
    /// Enters the run queue, or reads the place in it. A run that has begun stays admitted.
    Admit(Box<AdmissionRequest>),
    /// Reserves the Workspace's pod for the run and connects to its agent. Nothing replaces the pod
    /// until the run has ended or leaves the queue.
    AcquireAgent(Box<Workspace>),
    /// Starts the run, or finds it: its id is the Update's uid, so it starts once. The status is
    /// published first.
    StartRun(Box<Workspace>, Option<Box<UpdateStatus>>),
    /// Cancels the run gracefully. A run that has not begun is not started.
    CancelRun(Box<Workspace>),
    /// Stores the outputs, before the result is recorded. Idempotent.
    StoreOutputs(Box<Secret>),
}

/// What is asked of the run queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionRequest {
    /// The run, and what it works on.
    pub request: RunRequest,
    /// It is under way already.
    pub has_begun: bool,
}

/// A response to an [`UpdateRead`] or an [`UpdateWrite`].
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateResponse {
    /// To [`UpdateRead::Awaited`].
    Awaited(bool),
    /// To [`UpdateRead::Workspace`].
    Workspace(Option<Box<Workspace>>),
    /// To [`UpdateRead::PrecedingRuns`].
    PrecedingRuns(PrecedingRuns),
    /// To [`UpdateWrite::Admit`].
    Admission(Admission),
    /// To [`UpdateWrite::AcquireAgent`].
    Agent(AgentState),
    /// To [`UpdateWrite::StartRun`] and [`UpdateWrite::CancelRun`].
    Run(Result<RunProgress, RunError>),
    /// To [`UpdateWrite::StoreOutputs`]: the name of the Secret, or why it was refused for good.
    Outputs(Result<String, String>),
}

/// What can be done for an Update.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateEffect {
    /// Writes the status.
    PatchStatus(Box<UpdateStatus>),
    /// Makes the Update its Workspace's own.
    Adopt(OwnerReference),
    /// Gives its turn back: it can't use it now.
    ReleaseAdmission,
    /// Follows the run, so that its end makes this Update interesting again.
    WatchRun,
    /// Lets the agent forget the run: its result is recorded.
    AcknowledgeRun,
    /// Deletes the Update.
    Delete,
    /// Removes the Stack's finalizer from it.
    RemoveFinalizer,
    /// Tells the user. Where an event can't be written, nothing else is held up.
    Emit(Event<UpdateEvent>),
    /// Tells the user of the Workspace that its agent can't be reached.
    EmitWorkspaceWarning(String),
}

impl ObservedUpdate {
    /// With a time limit for Updates that set none.
    #[must_use]
    pub fn with_run_timeout(self, run_timeout: Option<Duration>) -> Self {
        Self {
            run_timeout,
            ..self
        }
    }

    /// A world in which only the Update is known, for a manager that leads since then.
    #[must_use]
    pub fn new(update: Update, leading_since: Timestamp) -> Self {
        Self {
            update,
            awaited: Fact::Unknown,
            workspace: Fact::Unknown,
            admission: Fact::Unknown,
            agent: Fact::Unknown,
            run: Fact::Unknown,
            outputs: Fact::Unknown,
            preceding_runs: Fact::Unknown,
            run_timeout: None,
            leading_since,
        }
    }
}

impl super::UpdateEvaluation {
    /// The same case after a question had this status published: that is what is stored now.
    pub(super) fn after_publishing(&self, status: Option<UpdateStatus>) -> Self {
        let mut evaluation = self.clone();
        if status.is_some() {
            evaluation.observed.update.status = status;
        }
        evaluation
    }
}
