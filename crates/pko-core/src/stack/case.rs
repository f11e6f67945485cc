//! A case to decide on, and how what is decided becomes a plan.

use jiff::Timestamp;
use pko_api::{
    names::{conditions::ConditionType, events::StackEvent, reasons::StackReason},
    pulumi::v1::StackStatus,
};

use super::{Effect, Event, Step, World, rules::finalize};
use crate::{
    Class,
    condition_set::{ConditionSet, Summary, find},
    step::{Requeue, finish},
};

/// A case: a world, the status as it will be, and the time. It owns its world so that the table of
/// rules is a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What is known.
    pub world: World,
    /// The status with a finished Update folded in.
    pub status: StackStatus,
    /// What the Update that was folded in leaves to do.
    pub absorbed: Option<Absorbed>,
    /// The time.
    pub now: Timestamp,
}

/// What an Update leaves to do once its result is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absorbed {
    /// The Update that holds our finalizer, unless it is gone.
    pub release: Option<String>,
    /// What the user is told.
    pub event: Event,
}

impl Case {
    /// The status with this summary, about the generation and request of now.
    pub(super) fn summarised(&self, summary: &Summary) -> StackStatus {
        let mut status = self.status.clone();
        status.observed_generation = Some(self.world.generation());
        status.observed_reconcile_request = Some(self.world.request().to_owned());
        let mut conditions = ConditionSet::new(&status.conditions, self.now);
        conditions.summarise(summary);
        status.conditions = conditions.into_conditions();
        status
    }

    /// The same case after a question had this status published: that is what is stored now.
    pub(super) fn after_publishing(&self, status: StackStatus) -> Self {
        let mut case = self.clone();
        case.world.stack.status = Some(status);
        case
    }

    /// Whether nothing was ever run for this Stack.
    pub(super) fn never_ran(&self) -> bool {
        self.status.last_update.is_none()
    }

    /// The plan: the status unless it is stored already, the Update whose result it records, the deeds,
    /// the events.
    pub(super) fn plan(
        &self,
        status: StackStatus,
        deeds: impl IntoIterator<Item = Effect>,
        news: Option<Event>,
        requeue: Requeue,
    ) -> Step {
        let stored = self.world.stack.status.as_ref();
        let write = (stored != Some(&status)).then(|| Effect::PatchStatus(Box::new(status)));
        let release = self.absorbed.iter().filter_map(|absorbed| {
            let name = absorbed.release.clone()?;
            Some(Effect::ReleaseUpdate(name))
        });
        let result = self.absorbed.iter().map(|absorbed| absorbed.event.clone());
        let events = result.chain(news).map(Effect::Emit);
        let effects = write
            .into_iter()
            .chain(release)
            .chain(deeds)
            .chain(events)
            .collect();
        finish(effects, requeue)
    }

    /// Lets go of the Update before, in case a crash came between the record of its result and its
    /// release: nothing else would, and it could never be deleted.
    pub(super) fn release_again(&self) -> Option<Effect> {
        let last = self
            .status
            .last_update
            .as_ref()
            .filter(|_| self.absorbed.is_none())?;
        last.name.clone().map(Effect::ReleaseUpdate)
    }

    /// Nothing more to do now.
    pub(super) fn waiting(&self, summary: &Summary, requeue: Requeue) -> Step {
        self.plan(self.summarised(summary), [], None, requeue)
    }

    /// Nothing can be run, and this is why. A Stack that goes and for which nothing was ever run owes
    /// nothing then; otherwise a spec that never worked could never be deleted.
    pub(super) fn blocked(&self, class: &Class) -> Step {
        self.blocked_with_news(class, None)
    }

    /// The spec can't be carried out. The event comes once, with the status that says the same.
    pub(super) fn refused(&self, message: String) -> Step {
        let stalled = find(&self.status.conditions, ConditionType::Stalled);
        let told = stalled.is_some_and(|condition| condition.message == message);
        let news = (!told).then(|| Event {
            reason: StackEvent::StackConfigInvalid,
            message: message.clone(),
            warning: true,
        });
        self.blocked_with_news(&Class::Stall(StackReason::SpecInvalid, message), news)
    }

    fn blocked_with_news(&self, class: &Class, news: Option<Event>) -> Step {
        if self.world.is_deleting() && self.never_ran() && !matches!(class, Class::Retry(..)) {
            return finalize::release(self);
        }
        self.plan(self.summarised(&class.summary()), [], news, class.requeue())
    }
}
