//! A case to decide on, and how what is decided becomes a plan.

use std::{borrow::Cow, sync::Arc, time::Duration};

use jiff::Timestamp;
use pko_api::{
    names::{conditions::ConditionType, events::StackEvent, reasons::StackReason},
    pulumi::v1::{StackStatus, UpdateState},
};

use super::{ObservedStack, StackEffect, StackStep, check, rules::finalize};
use crate::{
    Blocked, Event,
    condition_set::{ConditionSet, Summary, UP_TO_DATE, find, is_true, shorten},
    step::{Requeue, finish},
};

/// A case: a world, the status as it will be, and the time. It owns its world so that the table of
/// rules is a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct StackEvaluation {
    /// What is known.
    pub observed: ObservedStack,
    /// The status with a finished Update folded in.
    pub status: StackStatus,
    /// What the Update that was folded in leaves to do.
    pub finished: Option<FinishedUpdate>,
    /// The time.
    pub now: Timestamp,
}

/// What an Update leaves to do once its result is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedUpdate {
    /// The Update that holds our finalizer, unless it is gone.
    pub release: Option<String>,
    /// What the user is told.
    pub events: Vec<Event<StackEvent>>,
}

impl StackEvaluation {
    /// The status with this summary, about the generation and request of now.
    pub(super) fn summarised(&self, summary: &Summary) -> StackStatus {
        let mut status = self.status.clone();
        status.observed_generation = Some(self.observed.generation());
        status.observed_reconcile_request = Some(self.observed.request().into_owned());
        status.applied = self.applied();
        let mut conditions = ConditionSet::new(&status.conditions, self.now);
        conditions.set_summary(&self.remarked(summary));
        status.conditions = conditions.into_conditions();
        status
    }

    /// A Stack that is up to date says what its spec has in vain.
    fn remarked<'summary>(&self, summary: &'summary Summary) -> Cow<'summary, Summary> {
        let ready = *summary == Summary::Ready && !self.observed.is_deleting();
        let remark = ready.then(|| check::remark(&self.observed.stack)).flatten();
        remark.map_or(Cow::Borrowed(summary), |remark| {
            let message = format!("{UP_TO_DATE}; {remark}");
            Cow::Owned(Summary::ReadyBut(StackReason::ProcessingCompleted, message))
        })
    }

    /// The same case after a question had this status published: that is what is stored now.
    pub(super) fn after_publishing(&self, status: StackStatus) -> Self {
        let mut evaluation = self.clone();
        Arc::make_mut(&mut evaluation.observed.stack).status = Some(status);
        evaluation
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
            last.generation == Some(self.observed.generation())
                && last.reconcile_request.as_deref().unwrap_or_default() == self.observed.request()
                && last.state == Some(UpdateState::Succeeded)
        });
        same && !self.observed.is_deleting()
            && is_true(&self.status.conditions, ConditionType::Ready)
    }

    /// The plan: the status unless it is stored already, the Update whose result it records, the deeds,
    /// the events.
    pub(super) fn plan(
        &self,
        status: StackStatus,
        deeds: impl IntoIterator<Item = StackEffect>,
        news: Option<Event<StackEvent>>,
        requeue: Requeue,
    ) -> StackStep {
        let stored = self.observed.stack.status.as_ref();
        let write = (stored != Some(&status)).then(|| StackEffect::PatchStatus(Box::new(status)));
        let release = self.finished.iter().filter_map(|finished| {
            let name = finished.release.clone()?;
            Some(StackEffect::ReleaseUpdate(name))
        });
        let result = self.finished.iter();
        let result = result.flat_map(|finished| finished.events.clone());
        let events = result.chain(news).map(StackEffect::Emit);
        let deeds: Vec<StackEffect> = deeds.into_iter().collect();
        let forgotten = self.forgotten(&deeds);
        let prune = self.finished.is_some() && self.observed.limits_history();
        let effects = write
            .into_iter()
            .chain(release)
            .chain(forgotten)
            .chain(deeds)
            .chain(prune.then_some(StackEffect::PruneUpdates))
            .chain(events)
            .collect();
        finish(effects, requeue)
    }

    /// Lets go of Updates whose results are recorded and that we hold still: a crash came in between.
    fn forgotten(&self, deeds: &[StackEffect]) -> Vec<StackEffect> {
        let finished = self.finished.as_ref();
        let finished = finished.and_then(|finished| finished.release.as_ref());
        let held = self.observed.unreleased.iter();
        held.filter(|name| Some(*name) != finished)
            .map(|name| StackEffect::ReleaseUpdate(name.clone()))
            .filter(|release| !deeds.contains(release))
            .collect()
    }

    /// Lets go of the Update before, in case a crash came between the record of its result and its
    /// release: nothing else would, and it could never be deleted.
    pub(super) fn release_again(&self) -> Option<StackEffect> {
        let last = self
            .status
            .last_update
            .as_ref()
            .filter(|_| self.finished.is_none())?;
        last.name.clone().map(StackEffect::ReleaseUpdate)
    }

    /// Nothing more to do now.
    pub(super) fn waiting(&self, summary: &Summary, requeue: Requeue) -> StackStep {
        self.plan(self.summarised(summary), [], None, requeue)
    }

    /// Nothing can be run, and this is why. A Stack that goes and for which nothing was ever run owes
    /// nothing then; otherwise a spec that never worked could never be deleted.
    pub(super) fn blocked(&self, blocked: &Blocked) -> StackStep {
        if self.owes_nothing_after(blocked) {
            return finalize::release(self);
        }
        let blocked = finalize::with_way_out(self, blocked);
        self.plan(
            self.summarised(&blocked.summary()),
            [],
            None,
            blocked.requeue(),
        )
    }

    /// The spec can't be carried out.
    pub(super) fn refused(&self, message: String) -> StackStep {
        let blocked = Blocked::OnUser(StackReason::SpecInvalid, message);
        self.blocked_with_news(&blocked)
    }

    /// The spec can't be carried out because of something else that may change: it is looked at again.
    pub(super) fn refused_until_looked_at(&self, message: String, again: Duration) -> StackStep {
        let blocked = Blocked::OnDependency(StackReason::SpecInvalid, message, again);
        self.blocked_with_news(&blocked)
    }

    /// The event comes once, with the status that says the same.
    fn blocked_with_news(&self, blocked: &Blocked) -> StackStep {
        if self.owes_nothing_after(blocked) {
            return finalize::release(self);
        }
        let blocked = finalize::with_way_out(self, blocked);
        let message = blocked.message();
        let stalled = find(&self.status.conditions, ConditionType::Stalled);
        let told = stalled.is_some_and(|condition| condition.message == shorten(message));
        let news = (!told).then(|| Event {
            reason: StackEvent::StackConfigInvalid,
            message: message.to_owned(),
            warning: true,
        });
        self.plan(
            self.summarised(&blocked.summary()),
            [],
            news,
            blocked.requeue(),
        )
    }

    fn owes_nothing_after(&self, blocked: &Blocked) -> bool {
        self.observed.is_deleting()
            && self.never_applied()
            && !matches!(blocked, Blocked::Transient(..))
    }
}
