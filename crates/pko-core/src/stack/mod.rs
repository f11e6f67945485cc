//! The Stack's state machine.

mod check;
mod desired;
mod evaluation;
mod facts;
mod finished_update;
mod history;
mod observed;
mod outcome;
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
pub use outputs_to::{OutputsPublication, Published, publication};
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

    /// `evaluate` comes before all rules. For a Stack with our finalizer and a current Update it
    /// requests Read(CurrentUpdate) and, if that Update has succeeded, Read(Outputs) and
    /// Write(PublishOutputs).
    ///
    /// Each comment lists all requests of its rule. A rule requests what no rule before it has
    /// requested.
    const RULES: &'static [Rule<Self>] = &[
        // A deleted Stack without our finalizer. No request.
        Rule::new("already-released", finalize::ignore_released),
        // Our finalizer, before anything is created. No request.
        Rule::new("adopt", finalize::add_finalizer),
        // A current Update that a deletion does not need. No request.
        Rule::new("unneeded-update", update::cancel_unneeded),
        // A current Update that waits too long for its Workspace. Read(ExistingWorkspace) for a
        // deletion, Read(Source), Read(ConfigMaps), Read(Secrets), Write(ApplyWorkspace).
        Rule::new("update-workspace", workspace::repair),
        // Any other current Update. No request.
        Rule::new("update-in-flight", update::wait_for_current),
        // A deletion that needs no destroy. No request.
        Rule::new("release", finalize::release_without_destroy),
        // `spec.suspend`, except for a deletion. No request.
        Rule::new("suspended", suspend::suspend),
        // Invalid fields and references. No request.
        Rule::new("spec", spec::reject),
        // Read(ExistingWorkspace) for a deletion, Read(Source).
        Rule::new("source", sources::resolve),
        // No update is needed: ready, retrying, stalled, or destroyed. Read(ConfigMaps) and
        // Read(Secrets) if they are watched.
        Rule::new("in-sync", sync::settle),
        // Not for a deletion. Read(Prerequisites).
        Rule::new("prerequisites", prerequisites::wait),
        // A deletion with a missing input. Read(ConfigMaps), Read(Secrets), Write(ApplyWorkspace).
        Rule::new("namespace", inputs::check_namespace),
        // Read(ConfigMaps), Read(Secrets).
        Rule::new("inputs", inputs::wait),
        // Write(ApplyWorkspace), unless a deletion uses its running Workspace without a change.
        Rule::new("workspace", workspace::provision),
        // Write(CreateUpdate).
        Rule::new("launch", update::launch),
    ];

    fn evaluate(&self, now: Timestamp) -> Result<StackEvaluation, StackStep> {
        let evaluation = finished_update::fold_finished_update(self, now)?;
        Ok(references::record_first_versions(evaluation))
    }

    fn no_match(evaluation: &StackEvaluation) -> StackStep {
        evaluation.wait(&Summary::Ready, Requeue::Settled)
    }

    fn observe(&mut self, response: StackResponse) {
        match response {
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

    fn unsaved_effects(&self, now: Timestamp) -> Vec<StackEffect> {
        match self.decide(now) {
            // The status that a write publishes has the result already. Another patch would undo
            // it.
            StackStep::Write(_) => Vec::new(),
            _ => finished_update::unsaved_effects(self, now),
        }
    }
}
