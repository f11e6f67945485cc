//! The Workspace's state machine: a place to run, an agent that answers, packages, Ready.

mod abandoned;
mod compatibility;
mod delegation;
mod log_end;
pub mod pod;
mod rules;
mod status;
#[cfg(test)]
mod tests;
mod world;

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

pub use abandoned::is_awaited;
pub use log_end::end_of_log;
pub use status::is_usual_start;
pub use world::{
    AgentError, Answer, Case, Effect, Event, Place, Preparation, Question, Running, Stage,
    WAITING_FOR_AGENT, World,
};

use crate::{
    condition_set::ConditionSet,
    step::{Machine, Plan, Requeue, Rule, finish, first_match, stored_status, undecodable_plan},
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

/// A step of the Workspace's machine.
pub type Step = crate::Step<Question, Effect>;

const fn rule(
    name: &'static str,
    apply: fn(&Case) -> Option<Step>,
) -> Rule<Case, Question, Effect> {
    Rule { name, apply }
}

/// The whole table; the first rule that matches wins.
const RULES: &[Rule<Case, Question, Effect>] = &[
    rule("deleting", rules::deleting),
    rule("abandoned", abandoned::delete), // nobody's, and its Stack has gone: Ask(Awaited)
    rule("place", rules::place),          // Ask(Place): a pod or a process, made or found
    rule("version", rules::version),      // Ask(Version): an agent that answers
    rule("compatible", rules::compatible), // a CLI that understands the config
    rule("preparation", rules::preparation), // Ask(Preparation): packages, stacks
    rule("ready", rules::ready),
];

/// Decides what happens to a Workspace next.
#[must_use]
pub fn decide(world: &World, now: Timestamp) -> Step {
    let case = Case {
        world: world.clone(),
        now,
    };
    let step = first_match(RULES, &case);
    let step = step.unwrap_or_else(|| finish(Vec::new(), Requeue::Settled));
    abandoned::looked_at_again(world, step)
}

/// What happens to a Workspace that does not decode: it says so, and waits for a change.
#[must_use]
pub fn decide_undecodable(undecodable: &Undecodable, now: Timestamp) -> Plan<Effect> {
    let stored: WorkspaceStatus = stored_status(undecodable);
    let mut conditions = ConditionSet::new(&stored.conditions, now);
    let (reason, message) = (
        WorkspaceReason::InitializationFailed.as_str(),
        undecodable.error.to_string(),
    );
    conditions.set(
        ConditionType::Ready,
        ConditionStatus::False,
        reason,
        &message,
    );
    conditions.set(
        ConditionType::Stalled,
        ConditionStatus::True,
        reason,
        &message,
    );
    let status = WorkspaceStatus {
        observed_generation: undecodable.metadata.generation,
        conditions: conditions.into_conditions(),
        ..stored.clone()
    };
    undecodable_plan(&stored, status, Effect::PatchStatus)
}

impl Machine for World {
    type Question = Question;
    type Answer = Answer;
    type Effect = Effect;

    fn decide(&self, now: Timestamp) -> Step {
        decide(self, now)
    }

    fn learn(&mut self, answer: Answer) {
        self.learn(answer);
    }
}
