//! What a Stack's rules read, and how their decision becomes a plan.

use std::{borrow::Cow, sync::Arc, time::Duration};

use jiff::Timestamp;
use pko_api::{
    names::{conditions::ConditionType, events::StackEvent, reasons::StackReason},
    pulumi::v1::{StackStatus, UpdateState},
};

use super::{ObservedStack, StackEffect, StackStep, check, observed::needs_destroy};
use crate::{
    Blocked, Event,
    condition_set::{ConditionSet, Summary, UP_TO_DATE, find, is_true, shorten},
    step::{Requeue, finish},
};

/// The observed state, the next status, and the time. It owns the observed state, because the table
/// of rules is a constant.
#[derive(Clone, Debug, PartialEq)]
pub struct StackEvaluation {
    pub observed: ObservedStack,
    /// The status with the result of a finished Update.
    pub status: StackStatus,
    /// What is left to do for the Update whose result is in the status.
    pub finished: Option<FinishedUpdate>,
    pub now: Timestamp,
}

/// What is left to do for an Update whose result is in the Stack's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedUpdate {
    /// The Update, from which our finalizer is removed.
    pub release: Option<String>,
    pub events: Vec<Event<StackEvent>>,
}

impl StackEvaluation {
    /// The status with this summary, about the current generation and request.
    pub(super) fn status_with(&self, summary: &Summary) -> StackStatus {
        let mut status = self.status.clone();
        status.observed_generation = Some(self.observed.generation());
        status.observed_reconcile_request = Some(self.observed.request().into_owned());
        status.applied = self.applied_state();
        let mut conditions = ConditionSet::new(&status.conditions, self.now);
        conditions.set_summary(&self.add_remark(summary));
        status.conditions = conditions.into_conditions();
        status
    }

    /// The summary; for a Stack that is up to date, with the fields that have no effect.
    fn add_remark<'summary>(&self, summary: &'summary Summary) -> Cow<'summary, Summary> {
        let is_ready = *summary == Summary::Ready && !self.observed.is_deleting();
        let remark = is_ready.then(|| check::remark(&self.observed.stack));
        remark.flatten().map_or(Cow::Borrowed(summary), |remark| {
            let message = format!("{UP_TO_DATE}; {remark}");
            Cow::Owned(Summary::ReadyBut(StackReason::ProcessingCompleted, message))
        })
    }

    /// The same evaluation after a write has published this status, which is the stored one then.
    pub(super) fn after_publishing(&self, status: StackStatus) -> Self {
        let mut evaluation = self.clone();
        Arc::make_mut(&mut evaluation.observed.stack).status = Some(status);
        evaluation
    }

    /// Whether an update was ever started, if the status tells. It does not for a Stack of
    /// upstream's that has had an Update.
    fn applied_state(&self) -> Option<bool> {
        let is_new = self.status.last_update.is_none() && self.status.current_update.is_none();
        self.status.applied.or_else(|| is_new.then_some(false))
    }

    /// Whether nothing was ever applied for this Stack, so that no destroy is needed.
    pub(super) fn never_applied(&self) -> bool {
        self.applied_state() == Some(false)
    }

    /// Whether a deletion needs a destroy, after the result of a finished Update.
    pub(super) fn needs_destroy(&self) -> bool {
        needs_destroy(&self.observed.stack.spec, &self.status)
    }

    /// Whether the Stack was ready for the current spec and request.
    pub(super) fn was_up_to_date(&self) -> bool {
        let last = self.status.last_update.as_ref();
        let is_same = last.is_some_and(|last| {
            last.generation == Some(self.observed.generation())
                && last.reconcile_request.as_deref().unwrap_or_default() == self.observed.request()
                && last.state == Some(UpdateState::Succeeded)
        });
        is_same
            && !self.observed.is_deleting()
            && is_true(&self.status.conditions, ConditionType::Ready)
    }

    /// The plan, in this order: the status unless it is stored already, releases of Updates, the
    /// effects of the rule, the history, events.
    pub(super) fn plan(
        &self,
        status: StackStatus,
        effects: impl IntoIterator<Item = StackEffect>,
        event: Option<Event<StackEvent>>,
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
        let events = result.chain(event).map(StackEffect::Emit);
        let effects: Vec<StackEffect> = effects.into_iter().collect();
        let unreleased = self.release_forgotten_updates(&effects);
        let prunes = self.finished.is_some() && self.observed.limits_history();
        let effects = write
            .into_iter()
            .chain(release)
            .chain(unreleased)
            .chain(effects)
            .chain(prunes.then_some(StackEffect::PruneUpdates))
            .chain(events)
            .collect();
        finish(effects, requeue)
    }

    /// Releases Updates that still have our finalizer after a crash although their results are
    /// recorded.
    fn release_forgotten_updates(&self, effects: &[StackEffect]) -> Vec<StackEffect> {
        let finished = self.finished.as_ref();
        let finished = finished.and_then(|finished| finished.release.as_ref());
        let unreleased = self.observed.unreleased.iter();
        unreleased
            .filter(|name| Some(*name) != finished)
            .map(|name| StackEffect::ReleaseUpdate(name.clone()))
            .filter(|release| !effects.contains(release))
            .collect()
    }

    /// Releases the last Update once more, in case of a crash between the record of its result and
    /// its release. Otherwise it could never be deleted.
    pub(super) fn release_last_update(&self) -> Option<StackEffect> {
        let last = self
            .status
            .last_update
            .as_ref()
            .filter(|_| self.finished.is_none())?;
        last.name.clone().map(StackEffect::ReleaseUpdate)
    }

    /// Ends the pass without an effect of its own.
    pub(super) fn wait(&self, summary: &Summary, requeue: Requeue) -> StackStep {
        self.plan(self.status_with(summary), [], None, requeue)
    }

    /// Ends the pass because no run can start. A deleted Stack that never applied anything is
    /// released, so that a spec that never worked can be deleted.
    pub(super) fn block(&self, blocked: &Blocked) -> StackStep {
        if self.is_released_by(blocked) {
            return self.release();
        }
        let blocked = self.add_way_out(blocked);
        self.wait(&blocked.summary(), blocked.requeue())
    }

    /// Ends the pass because the spec can't be carried out.
    pub(super) fn reject_spec(&self, message: String) -> StackStep {
        let blocked = Blocked::OnUser(StackReason::SpecInvalid, message);
        self.block_with_event(&blocked)
    }

    /// Ends the pass because the spec can't be carried out until another object changes.
    pub(super) fn reject_spec_for_now(&self, message: String, again: Duration) -> StackStep {
        let blocked = Blocked::OnDependency(StackReason::SpecInvalid, message, again);
        self.block_with_event(&blocked)
    }

    /// Emits the event once, with the first status that has the same message.
    fn block_with_event(&self, blocked: &Blocked) -> StackStep {
        if self.is_released_by(blocked) {
            return self.release();
        }
        let blocked = self.add_way_out(blocked);
        let message = blocked.message();
        let stalled = find(&self.status.conditions, ConditionType::Stalled);
        let is_known = stalled.is_some_and(|condition| condition.message == shorten(message));
        let event = (!is_known).then(|| Event {
            reason: StackEvent::StackConfigInvalid,
            message: message.to_owned(),
            warning: true,
        });
        let status = self.status_with(&blocked.summary());
        self.plan(status, [], event, blocked.requeue())
    }

    fn is_released_by(&self, blocked: &Blocked) -> bool {
        self.observed.is_deleting()
            && self.never_applied()
            && !matches!(blocked, Blocked::Transient(..))
    }
}
