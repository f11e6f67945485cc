//! The state of a run, without its events and its result.

use jiff::Timestamp;
use pko_proto::{
    convert::to_proto_timestamp,
    run::{self, RunResult},
};
use serde::{Deserialize, Serialize};

use super::process::ProcessIdentity;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunPhase {
    Queued,
    Running,
    Succeeded,
    Failed,
    Canceled,
    Interrupted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RunKind {
    Preview,
    Up,
    Refresh,
    Destroy,
    /// The record was damaged.
    Unknown,
}

/// A run as it is journaled. The serialized names are the journal's format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    pub(crate) run_id: String,
    pub(crate) kind: RunKind,
    pub(crate) stack: String,
    pub(crate) state: RunPhase,
    pub(crate) created_at: Timestamp,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    /// The number of events.
    pub(crate) events: u64,
    /// The caller has stored the result.
    #[serde(default)]
    pub(crate) acknowledged: bool,
    /// The CLI's process, also after it has exited.
    #[serde(default)]
    pub(crate) process: Option<ProcessIdentity>,
    /// Belongs to the call that started it, and is removed with it.
    #[serde(default, rename = "of_a_call")]
    pub(crate) is_call_scoped: bool,
}

impl RunPhase {
    pub(crate) fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

impl RunRecord {
    /// The sequence number of the last event or of the result.
    pub(crate) fn last_sequence(&self) -> u64 {
        self.events + u64::from(self.state.is_final())
    }

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

impl From<RunPhase> for run::RunState {
    fn from(state: RunPhase) -> Self {
        match state {
            RunPhase::Queued => Self::Queued,
            RunPhase::Running => Self::Running,
            RunPhase::Succeeded => Self::Succeeded,
            RunPhase::Failed => Self::Failed,
            RunPhase::Canceled => Self::Canceled,
            RunPhase::Interrupted => Self::Interrupted,
        }
    }
}

impl From<RunKind> for run::Operation {
    fn from(kind: RunKind) -> Self {
        match kind {
            RunKind::Preview => Self::Preview,
            RunKind::Up => Self::Up,
            RunKind::Refresh => Self::Refresh,
            RunKind::Destroy => Self::Destroy,
            RunKind::Unknown => Self::Unspecified,
        }
    }
}

impl From<&crate::pulumi::Operation> for RunKind {
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
