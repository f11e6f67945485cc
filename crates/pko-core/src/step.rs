//! The vocabulary that the state machines of all kinds share, and the contract of their driver.
//!
//! # Flow
//! The driver observes an object and calls [`Machine::decide`]. It carries out each [`Step::Read`]
//! and [`Step::Write`] and passes the response to [`Machine::observe`], until [`Step::Finish`].
//! Then it performs the plan's effects in order and reconciles the object again as [`Requeue`]
//! demands.
//!
//! # Guarantees
//! - A read has no effect on the cluster, on an agent or on the run queue.
//! - A request occurs at most once in a pass, because its response becomes a [`Fact`].
//! - Effects are performed in the order of the plan. The first failure ends the pass, and the next
//!   pass starts from what it observes then.
//! - A state that waits has a requeue deadline, so a lost event only delays it.
//! - Events come last in a plan, so an event that can't be written blocks nothing.
//!
//! # Caveats
//! An expected failure (not found, not ready) is a response that a rule judges, not an error. Only
//! an unexpected failure ends a pass.
//!
//! A write is a change whose response the machine needs before it can decide. It may carry a status
//! to publish first. The driver writes that status unless it is stored already and does not observe
//! it again: the rules account for what they had published.

use std::time::Duration;

use jiff::Timestamp;
use pko_api::Undecodable;
use serde::de::DeserializeOwned;

/// The shortest requeue, which prevents hot loops.
pub const SHORTEST_REQUEUE: Duration = Duration::from_secs(1);

/// The state machine of a kind: what is observed of an object, and the rules that decide on it.
pub trait Machine: Sized + 'static {
    /// What the rules read.
    type Evaluation: 'static;
    type Status: DeserializeOwned + Default + PartialEq;
    type Read: 'static;
    type Write: 'static;
    /// A response to a read or to a write.
    type Response;
    type Effect: 'static;

    /// The whole table. The first rule that matches decides.
    const RULES: &'static [Rule<Self>];

    /// Prepares what the rules read, or requests what is missing for that.
    ///
    /// # Errors
    /// A request that has to be carried out first.
    fn evaluate(&self, now: Timestamp) -> Result<Self::Evaluation, StepOf<Self>>;

    /// Records a response.
    fn observe(&mut self, response: Self::Response);

    /// The effect that writes a status.
    fn patch_status(status: Box<Self::Status>) -> Self::Effect;

    /// The status of an object that does not decode.
    fn undecodable_status(
        stored: &Self::Status,
        undecodable: &Undecodable,
        now: Timestamp,
    ) -> Self::Status;

    /// The event that accompanies the status of an object that does not decode.
    fn undecodable_event(_stored: &Self::Status, _status: &Self::Status) -> Option<Self::Effect> {
        None
    }

    /// The step where no rule matches.
    fn no_match(_evaluation: &Self::Evaluation) -> StepOf<Self> {
        finish(Vec::new(), Requeue::Settled)
    }

    /// The longest time until the object is reconciled again, whichever rule decides.
    fn longest_requeue(&self) -> Option<Duration> {
        None
    }

    /// Effects that must not be lost when a request failed and the pass ends without a plan.
    fn unsaved_effects(&self, _now: Timestamp) -> Vec<Self::Effect> {
        Vec::new()
    }

    /// Decides. The same observations at the same time give the same step.
    fn decide(&self, now: Timestamp) -> StepOf<Self> {
        let step = self.evaluate(now).map_or_else(
            |request| request,
            |evaluation| {
                first_match::<Self>(&evaluation).unwrap_or_else(|| Self::no_match(&evaluation))
            },
        );
        match (step, self.longest_requeue()) {
            (Step::Finish(plan), Some(longest)) => Step::Finish(plan.within(longest)),
            (step, _) => step,
        }
    }

    /// The plan for an object that does not decode: its status reports that, and only a change
    /// helps.
    #[must_use]
    fn decide_undecodable(undecodable: &Undecodable, now: Timestamp) -> Plan<Self::Effect> {
        let stored = undecodable.status.clone();
        let stored: Self::Status = stored
            .and_then(|status| serde_json::from_value(status).ok())
            .unwrap_or_default();
        let status = Self::undecodable_status(&stored, undecodable, now);
        let event = Self::undecodable_event(&stored, &status);
        let write = (stored != status).then(|| Self::patch_status(Box::new(status)));
        Plan {
            rule: "undecodable",
            effects: write.into_iter().chain(event).collect(),
            requeue: Requeue::Settled,
        }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<Read, Write, Effect> {
    /// Look something up, without an effect.
    Read(Read),
    /// Change something whose outcome the next decision depends on.
    Write(Write),
    /// Nothing more is needed to decide.
    Finish(Plan<Effect>),
}

/// A step of a machine.
pub type StepOf<M> = Step<<M as Machine>::Read, <M as Machine>::Write, <M as Machine>::Effect>;

/// What to do, and when to reconcile again.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<Effect> {
    /// The rule that decided, for logs.
    pub rule: &'static str,
    /// In this order.
    pub effects: Vec<Effect>,
    pub requeue: Requeue,
}

impl<Effect> Plan<Effect> {
    fn within(self, longest: Duration) -> Self {
        let requeue = match self.requeue {
            Requeue::After(delay) => Requeue::After(delay.min(longest)),
            Requeue::Settled => Requeue::After(longest),
        };
        Self { requeue, ..self }
    }
}

/// When to reconcile an object again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Only after a change.
    Settled,
    /// After this long, or at the first event before that.
    After(Duration),
}

impl Requeue {
    /// After this long, but not sooner than [`SHORTEST_REQUEUE`].
    #[must_use]
    pub fn after(delay: Duration) -> Self {
        Self::After(delay.max(SHORTEST_REQUEUE))
    }
}

/// An event on an object, with a reason of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<Reason> {
    pub reason: Reason,
    pub message: String,
    /// Its type is `Warning`, not `Normal`.
    pub warning: bool,
}

/// A response that may not have been requested yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fact<T> {
    #[default]
    Unknown,
    Known(T),
}

impl<T> Fact<T> {
    /// The fact, if it is known.
    pub fn get(&self) -> Option<&T> {
        match self {
            Self::Known(fact) => Some(fact),
            Self::Unknown => None,
        }
    }

    /// The fact, or the read that provides it.
    ///
    /// # Errors
    /// The read.
    pub fn or_read<Read, Write, Effect>(
        &self,
        read: impl FnOnce() -> Read,
    ) -> Result<&T, Step<Read, Write, Effect>> {
        self.get().ok_or_else(|| Step::Read(read()))
    }

    /// The fact, or the write that provides it.
    ///
    /// # Errors
    /// The write.
    pub fn or_write<Read, Write, Effect>(
        &self,
        write: impl FnOnce() -> Write,
    ) -> Result<&T, Step<Read, Write, Effect>> {
        self.get().ok_or_else(|| Step::Write(write()))
    }
}

/// What the rules of a kind read that needs nothing but the observations and the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation<Observed> {
    pub observed: Observed,
    pub now: Timestamp,
}

/// A row of a rule table.
pub struct Rule<M: Machine> {
    /// Names the rule in logs.
    pub name: &'static str,
    /// Decides, or leaves the decision to the next rule.
    pub apply: fn(&M::Evaluation) -> Option<StepOf<M>>,
}

impl<M: Machine> Rule<M> {
    pub(crate) const fn new(
        name: &'static str,
        apply: fn(&M::Evaluation) -> Option<StepOf<M>>,
    ) -> Self {
        Self { name, apply }
    }
}

/// The step of the first rule that decides, with the rule's name in its plan.
fn first_match<M: Machine>(evaluation: &M::Evaluation) -> Option<StepOf<M>> {
    M::RULES.iter().find_map(|rule| {
        (rule.apply)(evaluation).map(|step| match step {
            Step::Finish(plan) => Step::Finish(Plan {
                rule: rule.name,
                ..plan
            }),
            request => request,
        })
    })
}

/// A plan without the name of its rule, which the table adds.
#[must_use]
pub fn finish<Read, Write, Effect>(
    effects: Vec<Effect>,
    requeue: Requeue,
) -> Step<Read, Write, Effect> {
    Step::Finish(Plan {
        rule: "",
        effects,
        requeue,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observes a number, and has an effect that names the rule.
    struct Counter(u8);

    impl Machine for Counter {
        type Evaluation = u8;
        type Status = u8;
        type Read = ();
        type Write = ();
        type Response = u8;
        type Effect = u8;

        const RULES: &'static [Rule<Self>] = &[
            Rule::new("small", |evaluation| {
                (*evaluation < 3).then(|| finish(vec![1], Requeue::Settled))
            }),
            Rule::new("any", |_| Some(finish(vec![2], Requeue::Settled))),
            Rule::new("never", |_| Some(finish(vec![3], Requeue::Settled))),
        ];

        fn evaluate(&self, _now: Timestamp) -> Result<u8, StepOf<Self>> {
            Ok(self.0)
        }

        fn observe(&mut self, response: u8) {
            self.0 = response;
        }

        fn patch_status(status: Box<u8>) -> u8 {
            *status
        }

        fn undecodable_status(_stored: &u8, _undecodable: &Undecodable, _now: Timestamp) -> u8 {
            0
        }

        fn longest_requeue(&self) -> Option<Duration> {
            (self.0 == 9).then_some(Duration::from_mins(1))
        }
    }

    fn decide(observed: u8) -> Plan<u8> {
        match Counter(observed).decide(Timestamp::UNIX_EPOCH) {
            Step::Finish(plan) => plan,
            request => panic!("{request:?}"),
        }
    }

    #[test]
    fn first_rule_that_decides_names_the_plan() {
        let plan = decide(1);
        assert_eq!((plan.rule, plan.effects), ("small", vec![1]));
        let plan = decide(7);
        assert_eq!((plan.rule, plan.effects), ("any", vec![2]));
    }

    #[test]
    fn longest_requeue_bounds_every_rule() {
        assert_eq!(decide(7).requeue, Requeue::Settled);
        let minute = Requeue::After(Duration::from_mins(1));
        assert_eq!(decide(9).requeue, minute);
    }

    #[test]
    fn requeue_after_zero_waits_the_shortest_time() {
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
    fn unknown_fact_is_requested() {
        let unknown: Fact<u8> = Fact::Unknown;
        assert_eq!(
            unknown.or_read::<_, (), ()>(|| "read"),
            Err(Step::Read("read"))
        );
        assert_eq!(
            unknown.or_write::<(), _, ()>(|| "write"),
            Err(Step::Write("write"))
        );
        assert_eq!(Fact::Known(3).or_read::<&str, (), ()>(|| "read"), Ok(&3));
    }
}
