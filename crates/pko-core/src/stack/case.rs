//! A case to decide on, and how what is decided becomes a plan.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;
use pko_api::{
    names::{conditions::ConditionType, events::StackEvent, reasons::StackReason},
    pulumi::v1::{StackStatus, UpdateState},
};

use super::{Effect, Event, Step, World, check, rules::finalize};
use crate::{
    Class,
    condition_set::{ConditionSet, Summary, UP_TO_DATE, find, is_true, shortened},
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
    pub events: Vec<Event>,
}

impl Case {
    /// The status with this summary, about the generation and request of now.
    pub(super) fn summarised(&self, summary: &Summary) -> StackStatus {
        let mut status = self.status.clone();
        status.observed_generation = Some(self.world.generation());
        status.observed_reconcile_request = Some(self.world.request().into_owned());
        status.applied = self.applied();
        let mut conditions = ConditionSet::new(&status.conditions, self.now);
        conditions.summarise(&self.remarked(summary));
        status.conditions = conditions.into_conditions();
        status
    }

    /// A Stack that is up to date says what its spec has in vain.
    fn remarked<'summary>(&self, summary: &'summary Summary) -> Cow<'summary, Summary> {
        let ready = *summary == Summary::Ready && !self.world.is_deleting();
        let remark = ready.then(|| check::remark(&self.world.stack)).flatten();
        remark.map_or(Cow::Borrowed(summary), |remark| {
            let message = format!("{UP_TO_DATE}; {remark}");
            Cow::Owned(Summary::ReadyBut(StackReason::ProcessingCompleted, message))
        })
    }

    /// The same case after a question had this status published: that is what is stored now.
    pub(super) fn after_publishing(&self, status: StackStatus) -> Self {
        let mut case = self.clone();
        case.world.stack.status = Some(status);
        case
    }

    /// Whether an update was ever begun, as far as the status knows. Of a Stack that was somebody else's before, and had
    /// an Update, nobody knows.
    fn applied(&self) -> Option<bool> {
        let fresh = || self.status.last_update.is_none() && self.status.current_update.is_none();
        self.status.applied.or_else(|| fresh().then_some(false))
    }

    /// Whether nothing was ever applied for this Stack, so that it owes nothing.
    pub(super) fn never_applied(&self) -> bool {
        self.applied() == Some(false)
    }

    /// Whether the Stack was ready for the spec and the request of now.
    pub(super) fn was_up_to_date(&self) -> bool {
        let last = self.status.last_update.as_ref();
        let same = last.is_some_and(|last| {
            last.generation == Some(self.world.generation())
                && last.reconcile_request.as_deref().unwrap_or_default() == self.world.request()
                && last.state == Some(UpdateState::Succeeded)
        });
        same && !self.world.is_deleting() && is_true(&self.status.conditions, ConditionType::Ready)
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
        let result = self.absorbed.iter();
        let result = result.flat_map(|absorbed| absorbed.events.clone());
        let events = result.chain(news).map(Effect::Emit);
        let deeds: Vec<Effect> = deeds.into_iter().collect();
        let forgotten = self.forgotten(&deeds);
        let prune = self.absorbed.is_some() && self.world.limits_history();
        let effects = write
            .into_iter()
            .chain(release)
            .chain(forgotten)
            .chain(deeds)
            .chain(prune.then_some(Effect::PruneUpdates))
            .chain(events)
            .collect();
        finish(effects, requeue)
    }

    /// Lets go of Updates whose results are recorded and that we hold still: a crash came in between.
    fn forgotten(&self, deeds: &[Effect]) -> Vec<Effect> {
        let absorbed = self.absorbed.as_ref();
        let absorbed = absorbed.and_then(|absorbed| absorbed.release.as_ref());
        let held = self.world.unreleased.iter();
        held.filter(|name| Some(*name) != absorbed)
            .map(|name| Effect::ReleaseUpdate(name.clone()))
            .filter(|release| !deeds.contains(release))
            .collect()
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
        if self.owes_nothing_after(class) {
            return finalize::release(self);
        }
        let class = finalize::with_way_out(self, class);
        self.plan(self.summarised(&class.summary()), [], None, class.requeue())
    }

    /// The spec can't be carried out.
    pub(super) fn refused(&self, message: String) -> Step {
        let class = Class::Stall(StackReason::SpecInvalid, message);
        self.blocked_with_news(&class)
    }

    /// The spec can't be carried out because of something else that may change: it is looked at again.
    pub(super) fn refused_until_looked_at(&self, message: String, again: Duration) -> Step {
        let class = Class::Wait(StackReason::SpecInvalid, message, again);
        self.blocked_with_news(&class)
    }

    /// The event comes once, with the status that says the same.
    fn blocked_with_news(&self, class: &Class) -> Step {
        if self.owes_nothing_after(class) {
            return finalize::release(self);
        }
        let class = finalize::with_way_out(self, class);
        let message = class.message();
        let stalled = find(&self.status.conditions, ConditionType::Stalled);
        let told = stalled.is_some_and(|condition| condition.message == shortened(message));
        let news = (!told).then(|| Event {
            reason: StackEvent::StackConfigInvalid,
            message: message.to_owned(),
            warning: true,
        });
        self.plan(self.summarised(&class.summary()), [], news, class.requeue())
    }

    fn owes_nothing_after(&self, class: &Class) -> bool {
        self.world.is_deleting() && self.never_applied() && !matches!(class, Class::Retry(..))
    }
}
