//! The Stack's state machine, on one screen.

mod absorb;
mod case;
mod check;
mod desired;
mod history;
mod outputs_to;
mod references;
mod rules;
mod schedule;
mod source;
#[cfg(test)]
mod tests;
mod world;

use jiff::Timestamp;
use pko_api::{Undecodable, names::reasons::StackReason, pulumi::v1::StackStatus};

pub use case::{Absorbed, Case};
pub use desired::{UpdateName, settle_pod, workspace_name};
pub use history::superfluous;
pub use outputs_to::{Publication, Published, publication};
pub use references::{Field, Reference, ReferenceKind, User, references};
pub use rules::{finalize::is_held, workspace::is_ready};
pub use source::{
    Artifact, FluxWanted, GitLogin, GitRevision, GitWanted, Location, NoSource, SecretKey, Source,
    Wanted, flux_source, git_keys, git_source, is_behind, program_source,
};
pub use world::{
    Answer, Effect, Event, Outputs, Prerequisites, Question, Refusal, Settings, Versions, World,
};

use crate::{
    condition_set::{ConditionSet, Summary},
    step::{Machine, Plan, Requeue, Rule, first_match, stored_status, undecodable_plan},
};
use rules::{
    finalize, inputs, prerequisites, source as sources, spec, suspend, sync, update, workspace,
};

/// A step of the Stack's machine.
pub type Step = crate::Step<Question, Effect>;

const fn rule(
    name: &'static str,
    apply: fn(&Case) -> Option<Step>,
) -> Rule<Case, Question, Effect> {
    Rule { name, apply }
}

/// The whole table; the first rule that matches wins.
const RULES: &[Rule<Case, Question, Effect>] = &[
    rule("already-released", finalize::already_released), // deleting, our finalizer is gone
    rule("adopt", finalize::add_finalizer),               // before anything is made
    rule("update-in-flight", update::wait_for_current),   // Ask(CurrentUpdate)
    rule("release", finalize::release_without_destroy),   // deleting, and nothing is owed
    rule("suspended", suspend::rest),                     // the user says so; a deletion goes on
    rule("spec", spec::refuse), // references, names and keys that can't be carried out
    rule("source", sources::resolve), // Ask(Source); stall or wait
    rule("in-sync", sync::settle), // Ready, retry or stalled; finalize after destroy
    rule("prerequisites", prerequisites::wait), // Ask(Prerequisites)
    rule("inputs", inputs::wait), // Ask(ConfigMaps | Secrets); stall
    rule("workspace", workspace::provision), // Ask(ApplyWorkspace)
    rule("launch", update::launch), // Ask(CreateUpdate), named in the status first
];

/// Decides what happens to a Stack next.
#[must_use]
pub fn decide(world: &World, now: Timestamp) -> Step {
    match absorb::absorb(world, now) {
        Ok(case) => {
            let case = references::remembered(case);
            first_match(RULES, &case)
                .unwrap_or_else(|| case.waiting(&Summary::Ready, Requeue::Settled))
        }
        Err(question) => crate::Step::Ask(question),
    }
}

/// What happens to a Stack that does not decode: it says so, and waits for a change.
#[must_use]
pub fn decide_undecodable(undecodable: &Undecodable, now: Timestamp) -> Plan<Effect> {
    let stored: StackStatus = stored_status(undecodable);
    let mut status = stored.clone();
    status.observed_generation = undecodable.metadata.generation;
    let mut conditions = ConditionSet::new(&stored.conditions, now);
    conditions.summarise(&Summary::Stalled(
        StackReason::SpecInvalid,
        undecodable.error.to_string(),
    ));
    status.conditions = conditions.into_conditions();
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

    fn unsaved(&self, now: Timestamp) -> Vec<Effect> {
        match decide(self, now) {
            // What was found is in the status that such a question publishes, next to what it is about: another status
            // would take that back.
            Step::Ask(Question::ApplyWorkspace(..) | Question::CreateUpdate(..)) => Vec::new(),
            _ => absorb::unsaved(self, now),
        }
    }
}
