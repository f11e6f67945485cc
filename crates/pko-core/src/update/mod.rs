//! The Update's state machine: wait for the Workspace and for its turn, start the run, record its result, expire.
//!
//! # Guarantees
//! - A run is begun once, whoever dies when. The status names the workspace's instance before its agent hears of the
//!   run. In the same instance a run that is not known was never begun, because the agent writes its journal first; in
//!   another one it is never begun at all.
//! - No wake-up can be lost. An Update that is not over has a time at which it is looked at again, whatever events
//!   come or don't: the laws hold that in every world. Events only make it sooner.

mod abandoned;
mod cancel;
mod lost;
mod outputs;
mod record;
mod result;
mod rules;
mod status;
#[cfg(test)]
mod tests;
mod turn;
mod world;

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

pub use abandoned::awaits;
pub use lost::{LostRun, lost_runs};
pub(crate) use outputs::data_key;
pub use outputs::{other_outputs_name, outputs_secret};
pub use result::{Output, RunOutcome};
pub use status::has_begun;
pub use turn::turn_request;
pub use world::{Agent, Answer, Case, Effect, Event, Question, Run, RunError, TurnQuestion, World};

use crate::{
    condition_set::ConditionSet,
    step::{Machine, Plan, Requeue, Rule, finish, first_match, stored_status, undecodable_plan},
};

/// A step of the Update's machine.
pub type Step = crate::Step<Question, Effect>;

const fn rule(
    name: &'static str,
    apply: fn(&Case) -> Option<Step>,
) -> Rule<Case, Question, Effect> {
    Rule { name, apply }
}

/// The whole table; the first rule that matches wins.
const RULES: &[Rule<Case, Question, Effect>] = &[
    rule("let-go", abandoned::let_go), // over, deleted, held for nobody: Ask(Awaited)
    rule("expire", rules::expire),     // over: wait for its time to live
    rule("adopt", rules::adopt),       // hand-written: it becomes its Workspace's
    rule("canceled", rules::cancel),   // nobody wants it, and it has not begun
    rule("unknown-operation", rules::unknown_operation),
    rule("of-another-operator", rules::of_another_operator), // begun, nobody knows where
    rule("await-workspace", rules::await_workspace),         // Ask(Workspace)
    rule("turn", rules::turn),                               // Ask(Turn): the run queue
    rule("reach", rules::reach),                             // Ask(Agent): is it the same one?
    rule("run", record::run), // Ask(Run): starts it or finds it; Ask(Cancel): ends it
];

/// Decides what happens to an Update next.
#[must_use]
pub fn decide(world: &World, now: Timestamp) -> Step {
    let case = Case {
        world: world.clone(),
        now,
    };
    first_match(RULES, &case).unwrap_or_else(|| finish(Vec::new(), Requeue::Settled))
}

/// What happens to an Update that does not decode: it ends, and says why. It was never run.
#[must_use]
pub fn decide_undecodable(undecodable: &Undecodable, now: Timestamp) -> Plan<Effect> {
    let stored: UpdateStatus = stored_status(undecodable);
    let mut conditions = ConditionSet::new(&stored.conditions, now);
    let failed = UpdateReason::Failed.as_str();
    conditions.set(
        ConditionType::Progressing,
        ConditionStatus::False,
        failed,
        "",
    );
    conditions.set(
        ConditionType::Failed,
        ConditionStatus::True,
        UpdateReason::UpdateFailed.as_str(),
        "",
    );
    conditions.set(ConditionType::Complete, ConditionStatus::True, failed, "");
    let status = UpdateStatus {
        failure_class: Some(FailureClass::Configuration.to_string()),
        observed_generation: undecodable.metadata.generation,
        conditions: conditions.into_conditions(),
        message: Some(undecodable.error.to_string()),
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
