//! The Update's state machine: wait for the Workspace and the run queue, start the run, record its
//! result, expire.
//!
//! # Guarantees
//! - A run starts at most once. The status names the workspace's instance before the agent receives
//!   the run. In the same instance an unknown run never started, because the agent writes its
//!   journal first. In another instance it is never started.
//! - A lost wake-up only causes a delay. Every unfinished Update has a requeue deadline; events
//!   only shorten the wait.

mod cancel;
mod finalizer;
mod interrupted_runs;
mod observed;
mod outcome_check;
mod outputs;
mod result;
mod rules;
mod run;
mod run_deadline;
mod run_request;
mod status;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use pko_api::{
    Undecodable,
    auto::v1alpha1::UpdateStatus,
    names::{
        conditions::{ConditionStatus, ConditionType},
        failures::FailureClass,
        reasons::UpdateReason,
    },
};

pub use finalizer::stack_awaits;
pub use interrupted_runs::{InterruptedRun, interrupted_runs};
pub use observed::{
    AdmissionRequest, AgentState, ObservedUpdate, PrecedingRuns, RunError, RunProgress,
    UpdateEffect, UpdateRead, UpdateResponse, UpdateWrite,
};
pub use outcome_check::is_version;
pub(crate) use outputs::data_key;
pub use outputs::{other_outputs_name, outputs_secret};
pub use result::{RunOutcome, StackOutput};
pub use run_deadline::preceding_runs;
pub use run_request::run_request;
pub use status::has_begun;

use crate::{
    condition_set::ConditionSet,
    step::{Evaluation, Fact, Machine, Rule, StepOf},
};

pub type UpdateStep = StepOf<ObservedUpdate>;
pub type UpdateEvaluation = Evaluation<ObservedUpdate>;

impl Machine for ObservedUpdate {
    type Evaluation = UpdateEvaluation;
    type Status = UpdateStatus;
    type Read = UpdateRead;
    type Write = UpdateWrite;
    type Response = UpdateResponse;
    type Effect = UpdateEffect;

    const RULES: &'static [Rule<Self>] = &[
        Rule::new("remove-finalizer", finalizer::remove_finalizer), // complete and deleted: Read(Awaited)
        Rule::new("expire", rules::expire), // complete: wait for the time to live
        Rule::new("adopt", rules::adopt),   // written by hand: Read(Workspace) to own it
        Rule::new("cancel", rules::cancel), // canceled before the start
        Rule::new("unknown-operation", rules::reject_unknown_operation),
        Rule::new("foreign-run", rules::end_foreign_run), // started by another operator
        Rule::new("await-workspace", rules::await_workspace), // Read(Workspace)
        Rule::new("admission", rules::request_admission), // Write(Admit)
        Rule::new("agent", rules::reach_agent),           // Write(AcquireAgent)
        Rule::new("run", run::run), // Write(StartRun | CancelRun), then Write(StoreOutputs)
    ];

    fn evaluate(&self, now: Timestamp) -> Result<UpdateEvaluation, UpdateStep> {
        Ok(Evaluation {
            observed: self.clone(),
            now,
        })
    }

    fn observe(&mut self, response: UpdateResponse) {
        match response {
            UpdateResponse::Awaited(awaited) => self.awaited = Fact::Known(awaited),
            UpdateResponse::Workspace(workspace) => {
                self.workspace = Fact::Known(workspace.map(|workspace| *workspace));
            }
            UpdateResponse::Admission(admission) => self.admission = Fact::Known(admission),
            UpdateResponse::Agent(agent) => self.agent = Fact::Known(agent),
            UpdateResponse::Run(run) => self.run = Fact::Known(run),
            UpdateResponse::PrecedingRuns(runs) => self.preceding_runs = Fact::Known(runs),
            UpdateResponse::Outputs(outputs) => self.outputs = Fact::Known(outputs),
        }
    }

    fn patch_status(status: Box<UpdateStatus>) -> UpdateEffect {
        UpdateEffect::PatchStatus(status)
    }

    /// The Update ends without a run.
    fn undecodable_status(
        stored: &UpdateStatus,
        undecodable: &Undecodable,
        now: Timestamp,
    ) -> UpdateStatus {
        use ConditionType::{Complete, Failed, Progressing};

        let failed = UpdateReason::Failed.as_str();
        let update_failed = UpdateReason::UpdateFailed.as_str();
        let mut conditions = ConditionSet::new(&stored.conditions, now);
        conditions.set(Progressing, ConditionStatus::False, failed, "");
        conditions.set(Failed, ConditionStatus::True, update_failed, "");
        conditions.set(Complete, ConditionStatus::True, failed, "");
        UpdateStatus {
            failure_class: Some(FailureClass::Configuration.to_string()),
            observed_generation: undecodable.metadata.generation,
            conditions: conditions.into_conditions(),
            message: Some(undecodable.error.to_string()),
            ..stored.clone()
        }
    }
}
