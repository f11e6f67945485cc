//! What is known of a run without its events and its result.

use jiff::Timestamp;
use pko_proto::{
    convert::to_proto_timestamp,
    run::{self, RunResult},
};
use serde::{Deserialize, Serialize};

use super::orphan::Process;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    Queued,
    Running,
    Succeeded,
    Failed,
    Canceled,
    Interrupted,
}

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Preview,
    Up,
    Refresh,
    Destroy,
}

/// A run, as it is kept in the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) run_id: String,
    pub(crate) kind: Kind,
    pub(crate) stack: String,
    pub(crate) state: State,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    /// How many events there are.
    pub(crate) events: u64,
    /// The result has been kept elsewhere.
    #[serde(default)]
    pub(crate) acknowledged: bool,
    /// The CLI; after the end, the one that there was.
    #[serde(default)]
    pub(crate) process: Option<Process>,
    /// Nobody else but the call that started it knows of it.
    #[serde(default)]
    pub(crate) of_a_call: bool,
}

impl State {
    pub(crate) fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

impl Record {
    /// The number of the last event, or of the result.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.events + u64::from(self.state.is_final())
    }

    /// As it goes over the wire.
    pub(crate) fn to_proto(&self, result: Option<RunResult>) -> run::Run {
        run::Run {
            run_id: self.run_id.clone(),
            state: run::RunState::from(self.state).into(),
            operation: run::Operation::from(self.kind).into(),
            stack_name: self.stack.clone(),
            created_at: Some(to_proto_timestamp(self.created_at)),
            started_at: self.started_at.map(to_proto_timestamp),
            finished_at: self.finished_at.map(to_proto_timestamp),
            last_sequence: self.last_sequence(),
            result,
            acknowledged: self.acknowledged,
        }
    }
}

impl From<State> for run::RunState {
    fn from(state: State) -> Self {
        match state {
            State::Queued => Self::Queued,
            State::Running => Self::Running,
            State::Succeeded => Self::Succeeded,
            State::Failed => Self::Failed,
            State::Canceled => Self::Canceled,
            State::Interrupted => Self::Interrupted,
        }
    }
}

impl From<Kind> for run::Operation {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Preview => Self::Preview,
            Kind::Up => Self::Up,
            Kind::Refresh => Self::Refresh,
            Kind::Destroy => Self::Destroy,
        }
    }
}

impl From<&crate::pulumi::Operation> for Kind {
    fn from(operation: &crate::pulumi::Operation) -> Self {
        use crate::pulumi::Operation;
        match operation {
            Operation::Preview(_) => Self::Preview,
            Operation::Up(_) => Self::Up,
            Operation::Refresh(_) => Self::Refresh,
            Operation::Destroy(_) => Self::Destroy,
        }
    }
}
