//! The observed state of an Update, its reads and writes, and its effects.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use pko_api::{Update, Workspace, auto::v1alpha1::UpdateStatus, names::events::UpdateEvent};

use super::RunOutcome;
use crate::{
    Event, Fact,
    run_queue::{Admission, RunRequest},
};

/// The observed state of an Update.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedUpdate {
    pub update: Update,
    /// Whether its Stack waits for the result.
    pub awaited: Fact<bool>,
    /// Its Workspace, if it exists.
    pub workspace: Fact<Option<Workspace>>,
    pub admission: Fact<Admission>,
    /// The agent of its Workspace.
    pub agent: Fact<AgentState>,
    pub run: Fact<Result<RunProgress, RunError>>,
    /// The name of the outputs Secret, or why it was rejected.
    pub outputs: Fact<Result<String, String>>,
    /// The earlier runs of the same agent.
    pub preceding_runs: Fact<PrecedingRuns>,
    /// The default time limit of a run.
    pub run_timeout: Option<Duration>,
    /// When this manager became the leader: no other manager has started a run since.
    pub leading_since: Timestamp,
}

/// The agent of a workspace. Its *instance* is the identity of its journal: another instance has no
/// record of the runs of this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// With its instance.
    Reachable(String),
    Unreachable {
        /// `None` if unknown.
        instance: Option<String>,
        message: String,
    },
    /// The pod in which the run started no longer exists, and no other pod exists yet.
    Gone,
}

impl AgentState {
    /// The instance, if it is known.
    #[must_use]
    pub fn instance(&self) -> Option<&str> {
        match self {
            Self::Reachable(instance) => Some(instance),
            Self::Unreachable { instance, .. } => instance.as_deref(),
            Self::Gone => None,
        }
    }
}

/// The progress of a run, as reported by the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum RunProgress {
    /// Queued or in progress.
    Running,
    Ended(Box<RunOutcome>),
    /// Canceled before the start.
    NotStarted,
}

/// The runs that an agent received before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrecedingRuns {
    /// At least one has not ended.
    InProgress,
    /// All have ended, the last one at this time.
    Ended(Option<Timestamp>),
}

/// Why the progress of a run is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunError {
    /// The agent did not respond; retried.
    Unreachable(String),
    /// The agent rejected the run.
    Refused(String),
    /// The agent's report exceeds the limits of the manager; a retry does not help.
    Oversized(String),
    /// The run started, but its result is unknown: upstream's agents forget a run with its caller.
    Lost(String),
}

/// What an Update's rules can look up.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateRead {
    /// Whether the Stack of this name waits for the result, by a live read.
    Awaited(String),
    /// The Workspace of this name. Only a live read proves that it does not exist.
    Workspace(String),
    /// The runs that the agent received before this one.
    PrecedingRuns,
}

/// What an Update's rules can change before they finish.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateWrite {
    /// Joins the run queue, or returns the position in it. A started run stays admitted.
    Admit(Box<AdmissionRequest>),
    /// Reserves the Workspace's pod for the run and connects to its agent. Nothing replaces the pod
    /// until the run has ended or leaves the queue.
    AcquireAgent(Box<Workspace>),
    /// Starts the run, after publishing the status. Starting is idempotent: the run's id is the
    /// Update's uid.
    StartRun(Box<Workspace>, Option<Box<UpdateStatus>>),
    /// Cancels the run gracefully. A run that has not started never starts.
    CancelRun(Box<Workspace>),
    /// Stores the outputs, before the result is recorded. Idempotent.
    StoreOutputs(Box<Secret>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionRequest {
    pub request: RunRequest,
    /// Whether the run has already started.
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
    /// To [`UpdateWrite::StoreOutputs`]: the name of the Secret, or why the API server rejected it
    /// for good.
    Outputs(Result<String, String>),
}

/// A change that ends a pass.
#[derive(Clone, Debug, PartialEq)]
pub enum UpdateEffect {
    PatchStatus(Box<UpdateStatus>),
    /// Sets the Workspace as the owner.
    Adopt(OwnerReference),
    /// Leaves the run queue, because the agent is not reachable.
    ReleaseAdmission,
    /// Watches the run, so that its end triggers a reconcile.
    WatchRun,
    /// Allows the agent to delete the run's record: the result is stored.
    AcknowledgeRun,
    Delete,
    RemoveFinalizer,
    /// A failure to write an event is only logged.
    Emit(Event<UpdateEvent>),
    /// Emits a warning on the Workspace that its agent is unreachable.
    EmitWorkspaceWarning(String),
}

impl ObservedUpdate {
    /// Sets the default time limit of a run.
    #[must_use]
    pub fn with_run_timeout(self, run_timeout: Option<Duration>) -> Self {
        Self {
            run_timeout,
            ..self
        }
    }

    /// An observed state with only the Update.
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
    /// The evaluation after a write that published this status.
    pub(super) fn after_publishing(&self, status: Option<UpdateStatus>) -> Self {
        let mut evaluation = self.clone();
        if status.is_some() {
            evaluation.observed.update.status = status;
        }
        evaluation
    }
}
