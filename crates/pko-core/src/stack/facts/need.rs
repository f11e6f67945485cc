//! Whether an update is needed, and when to check again if none is.

use std::time::Duration;

use pko_api::{
    GoDuration,
    auto::v1alpha1::OperationType,
    names::urgencies::Urgency,
    pulumi::v1::{LastUpdate, UpdateState},
};

use super::source;
use crate::{
    stack::{StackEvaluation, finished_update, references, schedule},
    step::Requeue,
};

/// Whether an update is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::stack) enum Need {
    Update(Trigger),
    /// None, until then.
    Nothing(Requeue),
}

/// Why an update is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::stack) struct Trigger {
    /// The reason that the user sees.
    pub(in crate::stack) message: String,
    pub(in crate::stack) urgency: Urgency,
    /// Earlier failures no longer count.
    pub(in crate::stack) resets_failures: bool,
}

fn update_for(urgency: Urgency, message: impl Into<String>) -> Need {
    Need::Update(Trigger {
        message: message.into(),
        urgency,
        resets_failures: false,
    })
}

/// The first reason that matches counts, as in upstream's operator.
pub(in crate::stack) fn find(evaluation: &StackEvaluation) -> Need {
    let observed = &evaluation.observed;
    let deletion = || update_for(Urgency::Destroy, "Stack marked for deletion");
    let Some(last) = &evaluation.status.last_update else {
        let urgency = if observed.is_deleting() {
            Urgency::Destroy
        } else {
            Urgency::Change
        };
        return update_for(urgency, "Initial stack update");
    };
    if last.generation != Some(observed.generation()) {
        if observed.is_deleting() {
            return deletion();
        }
        let message = format!("New stack generation: {}", observed.generation());
        return update_for(Urgency::Change, message);
    }
    if last.reconcile_request.as_deref().unwrap_or_default() != observed.request() {
        let message = format!("Sync request: {:?}", observed.request());
        return update_for(Urgency::Request, message);
    }
    match &last.state {
        Some(UpdateState::Failed) => after_failure(evaluation, last),
        _ if is_destroyed(evaluation, last) => Need::Nothing(Requeue::Settled),
        _ if observed.is_deleting() => deletion(),
        Some(UpdateState::Succeeded) => after_success(evaluation, last),
        _ => Need::Nothing(Requeue::Settled),
    }
}

/// Whether the destroy of a deletion has succeeded.
pub(in crate::stack) fn is_destroyed(evaluation: &StackEvaluation, last: &LastUpdate) -> bool {
    evaluation.observed.is_deleting()
        && last.state == Some(UpdateState::Succeeded)
        && last.operation == Some(OperationType::Destroy)
}

fn after_success(evaluation: &StackEvaluation, last: &LastUpdate) -> Need {
    let spec = &evaluation.observed.stack.spec;
    let is_refresh = finished_update::is_pre_update_refresh(last);
    let last_commit = if is_refresh {
        &last.last_attempted_commit
    } else {
        &last.last_successful_commit
    };
    if let Some(message) = new_revision(evaluation, last_commit.as_deref()) {
        return update_for(Urgency::Change, message);
    }
    if is_refresh {
        return update_for(Urgency::Change, "Refresh found no changes");
    }
    if let Some(trigger) = reference_change(evaluation) {
        return Need::Update(trigger);
    }
    if !spec.continue_resync_on_commit_match.unwrap_or(false) {
        return Need::Nothing(Requeue::Settled);
    }
    let period = schedule::resync_period(spec);
    after_wait(evaluation, last, period, "Resync time elapsed")
}

fn after_failure(evaluation: &StackEvaluation, last: &LastUpdate) -> Need {
    if let Some(message) = new_revision(evaluation, last.last_attempted_commit.as_deref()) {
        return update_for(urgency(evaluation, Urgency::Change), message);
    }
    if let Some(trigger) = reference_change(evaluation) {
        return Need::Update(trigger);
    }
    let wait = schedule::wait_after(&evaluation.observed.stack.spec, last);
    match resync_after_failure(evaluation, last).filter(|period| *period < wait) {
        None => after_wait(evaluation, last, wait, "Backoff time elapsed"),
        Some(period) => match after_wait(evaluation, last, period, "Resync time elapsed") {
            Need::Update(trigger) => Need::Update(Trigger {
                resets_failures: true,
                ..trigger
            }),
            nothing @ Need::Nothing(_) => nothing,
        },
    }
}

/// The resync period of a Stack that has failed too often. A resync resets the count of failures.
fn resync_after_failure(evaluation: &StackEvaluation, last: &LastUpdate) -> Option<Duration> {
    let spec = &evaluation.observed.stack.spec;
    let resynced = spec.continue_resync_on_commit_match.unwrap_or(false)
        && !evaluation.observed.is_deleting()
        && schedule::is_too_many(spec, last.failures.unwrap_or(0));
    resynced.then(|| schedule::resync_period(spec))
}

/// The urgency of a destroy for every run of a deletion.
fn urgency(evaluation: &StackEvaluation, otherwise: Urgency) -> Urgency {
    if evaluation.observed.is_deleting() {
        Urgency::Destroy
    } else {
        otherwise
    }
}

fn after_wait(evaluation: &StackEvaluation, last: &LastUpdate, wait: Duration, over: &str) -> Need {
    if let Some(left) = schedule::remaining(last, wait, evaluation.now) {
        return Need::Nothing(Requeue::after(left));
    }
    let message = format!("{over}: {}", GoDuration::from(wait));
    update_for(urgency(evaluation, Urgency::Resync), message)
}

fn new_revision(evaluation: &StackEvaluation, last: Option<&str>) -> Option<String> {
    let revision = source::find(evaluation).ok()?.revision;
    let is_new = last.unwrap_or_default() != revision;
    is_new.then(|| format!("New commit detected: {revision:?}"))
}

/// A ConfigMap or Secret that differs from the one of the last update. The change may repair what
/// failed before.
fn reference_change(evaluation: &StackEvaluation) -> Option<Trigger> {
    let changed = references::first_change(&evaluation.observed, &evaluation.status)?;
    Some(Trigger {
        message: format!("Referenced {} changed: {:?}", changed.kind, changed.name),
        urgency: urgency(evaluation, Urgency::Change),
        resets_failures: true,
    })
}

/// How long a failed Stack waits for its next attempt.
pub(in crate::stack) fn retry_wait(evaluation: &StackEvaluation, last: &LastUpdate) -> Duration {
    let wait = schedule::wait_after(&evaluation.observed.stack.spec, last);
    resync_after_failure(evaluation, last).map_or(wait, |period| period.min(wait))
}
