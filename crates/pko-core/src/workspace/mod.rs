//! The Workspace's state machine: a pod or a process, an agent that responds, packages, Ready.

mod auth_delegation;
mod compatibility;
mod log_end;
mod observed;
mod orphan;
pub mod pod;
mod rules;
mod status;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{Resource as _, apimachinery::pkg::apis::meta::v1::OwnerReference};
use pko_api::{
    Undecodable, Workspace,
    auto::v1alpha1::WorkspaceStatus,
    names::{
        conditions::{ConditionStatus, ConditionType},
        reasons::WorkspaceReason,
    },
};

pub use log_end::end_of_log;
pub use observed::{
    AgentEndpoint, AgentError, ObservedWorkspace, RuntimeState, SetupStage, SetupState,
    WAITING_FOR_AGENT, WorkspaceEffect, WorkspaceRead, WorkspaceResponse, WorkspaceWrite,
};
pub use orphan::is_awaited;
pub use status::{has_condition, is_current, is_normal_startup, is_ready};

use crate::{
    condition_set::ConditionSet,
    step::{Evaluation, Fact, Machine, Rule, StepOf},
};

/// The Workspace as the controlling owner of another object.
#[must_use]
pub fn owner_reference(workspace: &Workspace) -> OwnerReference {
    OwnerReference {
        api_version: Workspace::API_VERSION.to_owned(),
        kind: Workspace::KIND.to_owned(),
        name: workspace.metadata.name.clone().unwrap_or_default(),
        uid: workspace.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

pub type WorkspaceStep = StepOf<ObservedWorkspace>;
pub type WorkspaceEvaluation = Evaluation<ObservedWorkspace>;

impl Machine for ObservedWorkspace {
    type Evaluation = WorkspaceEvaluation;
    type Status = WorkspaceStatus;
    type Read = WorkspaceRead;
    type Write = WorkspaceWrite;
    type Response = WorkspaceResponse;
    type Effect = WorkspaceEffect;

    const RULES: &'static [Rule<Self>] = &[
        Rule::new("deleting", rules::report_deletion),
        Rule::new("orphan", orphan::delete_orphan), // no owner, no Stack: Read(Awaited)
        Rule::new("runtime", rules::ensure_runtime), // Write(EnsureRuntime): a pod or a process
        Rule::new("version", rules::read_version),  // Read(Version): the agent responds
        Rule::new("compatible", rules::check_compatibility), // the CLI supports the config
        Rule::new("setup", rules::set_up),          // Write(SetUp): packages, stacks
        Rule::new("ready", rules::report_ready),
    ];

    fn evaluate(&self, now: Timestamp) -> Result<WorkspaceEvaluation, WorkspaceStep> {
        Ok(Evaluation {
            observed: self.clone(),
            now,
        })
    }

    fn longest_requeue(&self) -> Option<Duration> {
        orphan::longest_requeue(&self.workspace)
    }

    fn observe(&mut self, response: WorkspaceResponse) {
        match response {
            WorkspaceResponse::Awaited(awaited) => self.awaited = Fact::Known(awaited),
            WorkspaceResponse::Runtime(runtime) => self.runtime = Fact::Known(runtime),
            WorkspaceResponse::Version(version) => self.version = Fact::Known(version),
            WorkspaceResponse::Setup(setup) => self.setup = Fact::Known(setup),
        }
    }

    fn patch_status(status: Box<WorkspaceStatus>) -> WorkspaceEffect {
        WorkspaceEffect::PatchStatus(status)
    }

    fn undecodable_status(
        stored: &WorkspaceStatus,
        undecodable: &Undecodable,
        now: Timestamp,
    ) -> WorkspaceStatus {
        use ConditionType::{Ready, Stalled};

        let reason = WorkspaceReason::InitializationFailed.as_str();
        let message = undecodable.error.to_string();
        let mut conditions = ConditionSet::new(&stored.conditions, now);
        conditions.set(Ready, ConditionStatus::False, reason, &message);
        conditions.set(Stalled, ConditionStatus::True, reason, &message);
        WorkspaceStatus {
            observed_generation: undecodable.metadata.generation,
            conditions: conditions.into_conditions(),
            ..stored.clone()
        }
    }
}
