//! The vocabulary that all machines share, and the contract of the loop that drives them.
//!
//! # Flow
//! The driver builds a world from the object, calls `decide`, answers each [`Step::Ask`] and tells the world,
//! until [`Step::Finish`]; then it carries out the plan's effects in order and comes back when [`Requeue`] says.
//!
//! # Guarantees
//! - A question is asked at most once for each world: an answer makes it known.
//! - Effects are carried out in the order of the plan; the first that fails ends the pass, and the
//!   next pass starts from what is true then.
//! - A state that waits names the time at which it looks again, even if no event comes.
//! - Events come last in a plan: one that can't be written holds up nothing.
//!
//! # Caveats
//! An expected failure (not found, not ready) is an answer, not an error: a rule judges it. Only the
//! unexpected ends a pass.
//!
//! A question may carry a status to publish before it is answered. The driver writes it, if it is not what is
//! stored, and leaves the world as it is: the rules know what they had published.

use std::time::Duration;

use jiff::Timestamp;
use pko_api::Undecodable;
use serde::de::DeserializeOwned;

/// No requeue is shorter: a hot loop helps nobody.
pub const SHORTEST_REQUEUE: Duration = Duration::from_secs(1);

/// A world that knows what to do next: what the driver needs of a kind.
pub trait Machine {
    /// What can be asked.
    type Question;
    /// What is answered.
    type Answer;
    /// What can be done.
    type Effect;

    /// Decides; the same world at the same time gives the same step.
    fn decide(&self, now: Timestamp) -> Step<Self::Question, Self::Effect>;

    /// Takes in an answer.
    fn learn(&mut self, answer: Self::Answer);

    /// What must not be lost when a question could not be answered, so that the pass ends here.
    fn unsaved(&self, _now: Timestamp) -> Vec<Self::Effect> {
        Vec::new()
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<Question, Effect> {
    /// One more fact is needed.
    Ask(Question),
    /// Everything is known; do this.
    Finish(Plan<Effect>),
}

/// What is to be done, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<Effect> {
    /// The rule that decided: it is in logs and in answers to "why".
    pub rule: &'static str,
    /// In this order.
    pub effects: Vec<Effect>,
    /// When to look again.
    pub requeue: Requeue,
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Nothing is waited for: only a change makes this object interesting again.
    Settled,
    /// After this long, or at the first event before that.
    After(Duration),
}

impl Requeue {
    /// After this long, but never at once.
    #[must_use]
    pub fn after(delay: Duration) -> Self {
        Self::After(delay.max(SHORTEST_REQUEUE))
    }
}

/// A fact that may not have been asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Known<T> {
    /// Nobody has asked.
    #[default]
    Unknown,
    /// The answer.
    Known(T),
}

impl<T> Known<T> {
    /// The answer, or the question that gives it.
    pub fn or_ask<Question, Effect>(
        &self,
        question: impl FnOnce() -> Question,
    ) -> Result<&T, Step<Question, Effect>> {
        match self {
            Self::Known(answer) => Ok(answer),
            Self::Unknown => Err(Step::Ask(question())),
        }
    }
}

/// A row of a rule table: a name for people, and a function that may decide.
pub struct Rule<Case, Question, Effect> {
    /// What `kubectl-pulumi why` shows.
    pub name: &'static str,
    /// Decides, or leaves it to the next rule.
    pub apply: fn(&Case) -> Option<Step<Question, Effect>>,
}

/// The first rule that decides, with its name in the plan.
pub fn first_match<Case, Question, Effect>(
    rules: &[Rule<Case, Question, Effect>],
    case: &Case,
) -> Option<Step<Question, Effect>> {
    rules.iter().find_map(|rule| {
        (rule.apply)(case).map(|step| match step {
            Step::Finish(plan) => Step::Finish(Plan {
                rule: rule.name,
                ..plan
            }),
            ask @ Step::Ask(_) => ask,
        })
    })
}

/// The status of an object that does not decode, if at least that does.
pub(crate) fn stored_status<Status: DeserializeOwned + Default>(
    undecodable: &Undecodable,
) -> Status {
    let stored = undecodable.status.clone();
    stored
        .and_then(|status| serde_json::from_value(status).ok())
        .unwrap_or_default()
}

/// The plan for an object that does not decode: its status says so, once, and only a change helps.
pub(crate) fn undecodable_plan<Status: PartialEq, Effect>(
    stored: &Status,
    status: Status,
    write: fn(Box<Status>) -> Effect,
) -> Plan<Effect> {
    let effects = (*stored != status).then(|| write(Box::new(status)));
    Plan {
        rule: "undecodable",
        effects: effects.into_iter().collect(),
        requeue: Requeue::Settled,
    }
}

/// A plan; the table adds the rule's name.
#[must_use]
pub fn finish<Question, Effect>(effects: Vec<Effect>, requeue: Requeue) -> Step<Question, Effect> {
    Step::Finish(Plan {
        rule: "",
        effects,
        requeue,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_decides_names_the_plan() {
        let rules: [Rule<u8, (), u8>; 3] = [
            Rule {
                name: "small",
                apply: |case| (*case < 3).then(|| finish(vec![1], Requeue::Settled)),
            },
            Rule {
                name: "any",
                apply: |_| Some(finish(vec![2], Requeue::Settled)),
            },
            Rule {
                name: "never",
                apply: |_| Some(finish(vec![3], Requeue::Settled)),
            },
        ];
        let rule = |case: u8| match first_match(&rules, &case) {
            Some(Step::Finish(plan)) => (plan.rule, plan.effects),
            other => panic!("{other:?}"),
        };
        assert_eq!(rule(1), ("small", vec![1]));
        assert_eq!(rule(7), ("any", vec![2]));
    }

    #[test]
    fn no_requeue_is_at_once() {
        assert_eq!(
            Requeue::after(Duration::ZERO),
            Requeue::After(SHORTEST_REQUEUE)
        );
        assert_eq!(
            Requeue::after(Duration::from_mins(1)),
            Requeue::After(Duration::from_mins(1))
        );
    }

    #[test]
    fn an_unknown_fact_is_asked_for() {
        let unknown: Known<u8> = Known::Unknown;
        assert_eq!(unknown.or_ask::<_, ()>(|| "what?"), Err(Step::Ask("what?")));
        assert_eq!(Known::Known(3).or_ask::<&str, ()>(|| "what?"), Ok(&3));
    }
}
