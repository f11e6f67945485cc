//! The Stack's state machine.

mod finished_update;

mod check;
mod desired;
mod evaluation;
mod history;
mod observed;
mod outputs_to;
mod prerequisite_view;
mod references;
mod rules;
mod schedule;
mod shown_outputs;
mod source;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use pko_api::{Undecodable, names::reasons::StackReason, pulumi::v1::StackStatus};

pub use desired::{UpdateName, settle_pod, workspace_name};
pub use evaluation::{FinishedUpdate, StackEvaluation};
pub use history::updates_to_prune;
pub use observed::{
    ObservedStack, Prerequisites, Refusal, StackEffect, StackOutputs, StackRead, StackResponse,
    StackSettings, StackWrite, Versions,
};
pub use outputs_to::{Publication, Published, publication};
pub use prerequisite_view::{MAX_PREREQUISITES, prerequisite_view};
pub use references::{Reference, ReferenceKind, ReferenceUser, SpecField, references};
pub use shown_outputs::{ShownOutputs, shown_outputs};
pub use source::{
    Artifact, FluxSourceGroups, FluxSourceRef, GitLogin, GitRevision, GitSourceRef,
    InvalidFluxSourceGroups, Location, ProgramSource, SecretKey, SourceError, SourceRef,
    flux_source, git_keys, git_source, is_behind, program_source,
};

use crate::{
    condition_set::{ConditionSet, Summary},
    step::{Fact, Machine, Requeue, Rule, StepOf},
};
use rules::{
    finalize, inputs, prerequisites, source as sources, spec, suspend, sync, update, workspace,
};

/// A step of the Stack's machine.
pub type StackStep = StepOf<ObservedStack>;

impl Machine for ObservedStack {
    type Evaluation = StackEvaluation;
    type Status = StackStatus;
    type Read = StackRead;
    type Write = StackWrite;
    type Response = StackResponse;
    type Effect = StackEffect;

    const RULES: &'static [Rule<Self>] = &[
        Rule::new("already-released", finalize::already_released), // deleting, our finalizer is gone
        Rule::new("adopt", finalize::add_finalizer),               // before anything is created
        Rule::new("update-in-flight", update::wait_for_current),   // wait, or repair its Workspace
        Rule::new("release", finalize::release_without_destroy),   // deleting, no destroy is needed
        Rule::new("suspended", suspend::rest), // spec.suspend; not for a deletion
        Rule::new("spec", spec::refuse),       // invalid fields and references
        Rule::new("source", sources::resolve), // Read(Source)
        Rule::new("in-sync", sync::settle),    // ready, retrying or stalled; or destroyed
        Rule::new("prerequisites", prerequisites::wait), // Read(Prerequisites)
        Rule::new("inputs", inputs::wait),     // Read(ConfigMaps), Read(Secrets)
        Rule::new("workspace", workspace::provision), // Write(ApplyWorkspace)
        Rule::new("launch", update::launch),   // Write(CreateUpdate)
    ];

    fn evaluate(&self, now: Timestamp) -> Result<StackEvaluation, StackStep> {
        finished_update::fold_finished_update(self, now).map(references::remembered)
    }

    fn no_match(evaluation: &StackEvaluation) -> StackStep {
        evaluation.waiting(&Summary::Ready, Requeue::Settled)
    }

    fn observe(&mut self, answer: StackResponse) {
        match answer {
            StackResponse::CurrentUpdate(update) => {
                self.current_update = Fact::Known(update.map(|update| *update));
            }
            StackResponse::Outputs(outputs) => self.outputs = Fact::Known(outputs),
            StackResponse::NoOutputs => {
                let status = self.stack.status.as_ref();
                let before = status.and_then(|status| status.outputs.clone());
                self.outputs = Fact::Known(before.unwrap_or_default().into());
            }
            StackResponse::Published(result) => self.published = Fact::Known(result),
            StackResponse::ConfigMaps(versions) => self.config_maps = Fact::Known(versions),
            StackResponse::Secrets(versions) => self.secrets = Fact::Known(versions),
            StackResponse::Prerequisites(stacks) => self.prerequisites = Fact::Known(stacks),
            StackResponse::Created(result) => self.created = Fact::Known(result),
            StackResponse::Source(source) => self.source = Fact::Known(source),
            StackResponse::ExistingWorkspace(workspace) => {
                self.existing_workspace = Fact::Known(workspace.map(|workspace| *workspace));
            }
            StackResponse::Workspace(workspace) => {
                self.workspace = Fact::Known(workspace.map(|workspace| *workspace));
            }
        }
    }

    fn patch_status(status: Box<StackStatus>) -> StackEffect {
        StackEffect::PatchStatus(status)
    }

    fn undecodable_status(
        stored: &StackStatus,
        undecodable: &Undecodable,
        now: Timestamp,
    ) -> StackStatus {
        let mut conditions = ConditionSet::new(&stored.conditions, now);
        conditions.set_summary(&Summary::Stalled(
            StackReason::SpecInvalid,
            undecodable.error.to_string(),
        ));
        StackStatus {
            observed_generation: undecodable.metadata.generation,
            conditions: conditions.into_conditions(),
            ..stored.clone()
        }
    }

    fn unsaved(&self, now: Timestamp) -> Vec<StackEffect> {
        match self.decide(now) {
            // The status that a write publishes has the result already. Another one would undo it.
            StackStep::Write(_) => Vec::new(),
            _ => finished_update::unsaved(self, now),
        }
    }
}
