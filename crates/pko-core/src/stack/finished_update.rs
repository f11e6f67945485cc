//! Folds the result of a finished Update into the Stack's status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    Update,
    auto::v1alpha1::{OperationType, UpdateStatus},
    names::{conditions::ConditionType, events::StackEvent},
    pulumi::v1::{CurrentUpdate, LastUpdate, StackSpec, UpdateState},
};

use super::{
    FinishedUpdate, ObservedStack, StackEffect, StackEvaluation, StackRead, StackStep, StackWrite,
    observed::was_certainly_applied,
    outcome::processing,
    schedule::{FailureKind, failure_kind},
};
use crate::{
    Event, Fact,
    condition_set::{find, is_true, shorten},
    finalizers::is_released,
    step::Requeue,
};

/// The result of an Update.
struct UpdateEnd {
    operation: Option<OperationType>,
    permalink: Option<String>,
    /// A remark on an Update that succeeded, or why it failed.
    result: Result<Option<String>, Failure>,
    /// The message of the Complete condition.
    note: String,
    /// The Update, which has our finalizer.
    release: Option<String>,
}

struct Failure {
    message: String,
    class: Option<String>,
}

/// What the rules read, with the result of a finished Update in the status.
///
/// # Errors
/// The request that comes first: the current Update, its outputs, or their publication.
pub(super) fn fold_finished_update(
    observed: &ObservedStack,
    now: Timestamp,
) -> Result<StackEvaluation, StackStep> {
    let mut evaluation = StackEvaluation {
        observed: observed.clone(),
        status: observed.stack.status.clone().unwrap_or_default(),
        finished: None,
        now,
    };
    let Some(current) = evaluation.status.current_update.clone() else {
        return Ok(evaluation);
    };
    // A released Stack records nothing more.
    if is_released(&observed.stack.metadata) {
        return Ok(evaluation);
    }
    let name = current.name.clone().unwrap_or_default();
    match &observed.current_update {
        Fact::Unknown if !name.is_empty() => Err(StackStep::Read(StackRead::CurrentUpdate(name))),
        // A crash prevented its creation, or it was deleted by force. Its result is lost, so it is
        // created again if it is still needed. Upstream waits forever (issue 1292).
        Fact::Unknown | Fact::Known(None) => {
            evaluation.status.current_update = None;
            Ok(evaluation)
        }
        Fact::Known(Some(update)) if !is_complete(update) => Ok(evaluation),
        Fact::Known(Some(update)) => fold(evaluation, &current, update),
    }
}

/// Whether an Update has ended. Its result is final, even if the object is being deleted.
fn is_complete(update: &Update) -> bool {
    let status = update.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, ConditionType::Complete))
}

fn fold(
    mut evaluation: StackEvaluation,
    current: &CurrentUpdate,
    update: &Update,
) -> Result<StackEvaluation, StackStep> {
    // For a Stack of upstream's only `last_update` proves this, and this result replaces it.
    if evaluation.status.applied.is_none() && was_certainly_applied(&evaluation.status) {
        evaluation.status.applied = Some(true);
    }
    let ended = update.status.clone().unwrap_or_default();
    let complete = find(&ended.conditions, ConditionType::Complete);
    let note = complete.map(|complete| complete.message.clone());
    let operation = update.spec.operation.clone();
    let result = if is_true(&ended.conditions, ConditionType::Failed) {
        Err(Failure {
            message: ended.message.unwrap_or_default(),
            class: ended.failure_class,
        })
    } else {
        let remark = take_outputs(&mut evaluation, operation.as_ref(), &ended)?;
        if ended.project_info.is_some() {
            evaluation.status.project_info = ended.project_info;
        }
        if operation == Some(OperationType::Destroy) {
            evaluation.status.applied = Some(false);
        }
        Ok(remark)
    };
    let end = UpdateEnd {
        operation,
        permalink: ended.permalink.filter(|link| !link.is_empty()),
        result,
        note: note.unwrap_or_default(),
        release: update.metadata.name.clone(),
    };
    Ok(record(evaluation, current, end))
}

/// Replaces the outputs by those of the Update, if it has some, and publishes them to
/// `spec.outputsTo`. Returns a problem of the publication as a remark, because the update itself
/// succeeded.
fn take_outputs(
    evaluation: &mut StackEvaluation,
    operation: Option<&OperationType>,
    ended: &UpdateStatus,
) -> Result<Option<String>, StackStep> {
    let secret = ended.outputs.clone().filter(|name| !name.is_empty());
    let mut left_out = None;
    if let Some(secret) = &secret {
        let Fact::Known(outputs) = &evaluation.observed.outputs else {
            return Err(StackStep::Read(StackRead::Outputs(secret.clone())));
        };
        evaluation.status.outputs = Some(outputs.values.clone());
        left_out.clone_from(&outputs.remark);
    }
    let has_targets = operation == Some(&OperationType::Up)
        && !evaluation.observed.stack.spec.outputs_to.is_empty();
    if !has_targets {
        return Ok(left_out);
    }
    match &evaluation.observed.published {
        Fact::Unknown => Err(StackStep::Write(StackWrite::PublishOutputs(secret))),
        Fact::Known(published) => Ok(join_remarks(left_out, published.clone().err())),
    }
}

fn join_remarks(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}; {other}")),
        (one, other) => one.or(other),
    }
}

fn record(
    mut evaluation: StackEvaluation,
    current: &CurrentUpdate,
    end: UpdateEnd,
) -> StackEvaluation {
    evaluation.finished = Some(FinishedUpdate {
        release: end.release.clone(),
        events: events(&end),
    });
    let previous = evaluation.status.last_update.take();
    let spec = &evaluation.observed.stack.spec;
    let last = last_update(spec, current, previous.as_ref(), end, evaluation.now);
    evaluation.status.last_update = Some(last);
    evaluation.status.current_update = None;
    evaluation.status.references.clone_from(&current.references);
    evaluation
}

/// Upstream's events, except for a destroy, which upstream reports as `StackCreated`.
fn events(end: &UpdateEnd) -> Vec<Event<StackEvent>> {
    let event = |reason, message: String, warning| Event {
        reason,
        message,
        warning,
    };
    let is_destroy = end.operation == Some(OperationType::Destroy);
    match &end.result {
        Ok(remark) => {
            let (reason, done) = if is_destroy {
                (StackEvent::StackDestroyed, "Successfully destroyed stack")
            } else {
                (StackEvent::StackCreated, "Successfully updated stack")
            };
            let mut done = done.to_owned();
            if !end.note.is_empty() {
                done = format!("{done}; {}", end.note);
            }
            let done = event(reason, done, false);
            let remark = remark.clone();
            let remark =
                remark.map(|text| event(StackEvent::StackOutputRetrievalFailure, text, true));
            [done].into_iter().chain(remark).collect()
        }
        Err(failure) => {
            let verb = if is_destroy { "destroy" } else { "update" };
            let message = format!("Failed to {verb} stack: {}", failure.message);
            vec![event(StackEvent::StackUpdateFailure, message, true)]
        }
    }
}

fn last_update(
    spec: &StackSpec,
    current: &CurrentUpdate,
    previous: Option<&LastUpdate>,
    end: UpdateEnd,
    now: Timestamp,
) -> LastUpdate {
    let attempt = current
        .attempt
        .unwrap_or_else(|| attempt(current, previous));
    let common = LastUpdate {
        generation: current.generation,
        reconcile_request: current.reconcile_request.clone(),
        name: current.name.clone(),
        last_attempted_commit: current.commit.clone(),
        last_successful_commit: previous
            .and_then(|previous| previous.last_successful_commit.clone()),
        permalink: end.permalink,
        last_resync_time: Some(Time(now)),
        ..LastUpdate::default()
    };
    let is_refresh = end.operation == Some(OperationType::Refresh);
    match end.result {
        // The earlier failures count for the update that follows this refresh.
        Ok(_) if is_refresh => LastUpdate {
            operation: end.operation,
            state: Some(UpdateState::Succeeded),
            failures: earlier_failures(attempt),
            ..common
        },
        Ok(remark) => LastUpdate {
            operation: end.operation,
            state: Some(UpdateState::Succeeded),
            message: remark.map(|remark| shorten(&remark)),
            last_successful_commit: current.commit.clone(),
            ..common
        },
        Err(failure) => {
            let counts = failure_kind(spec, failure.class.as_deref()) == FailureKind::Counted;
            let retries = previous.and_then(|previous| previous.retries).unwrap_or(0);
            LastUpdate {
                operation: end.operation,
                state: Some(UpdateState::Failed),
                message: Some(shorten(&failure.message)).filter(|message| !message.is_empty()),
                failures: if counts {
                    Some(attempt)
                } else {
                    earlier_failures(attempt)
                },
                failure_class: failure.class,
                retries: (!counts).then(|| retries.saturating_add(1)),
                ..common
            }
        }
    }
}

/// The failures in the status before this attempt, as the status counts them.
fn earlier_failures(attempt: i64) -> Option<i64> {
    (attempt > 0).then(|| attempt.saturating_sub(1))
}

/// The number of this attempt: how many failures with the same spec, request and revision came
/// before. A new revision starts at zero, because it may be the fix.
pub(super) fn attempt(current: &CurrentUpdate, previous: Option<&LastUpdate>) -> i64 {
    // Upstream omits an empty text.
    let same = |one: &Option<String>, other: &Option<String>| {
        one.as_deref().unwrap_or_default() == other.as_deref().unwrap_or_default()
    };
    let previous = previous
        .filter(|previous| previous.generation == current.generation)
        .filter(|previous| same(&previous.reconcile_request, &current.reconcile_request))
        .filter(|previous| same(&previous.last_attempted_commit, &current.commit));
    let Some(previous) = previous else {
        return 0;
    };
    // Upstream omits a zero, too.
    let uncounted = previous.retries.is_some() || is_pre_update_refresh(previous);
    let none = i64::from(!uncounted);
    previous
        .failures
        .map_or(none, |failures| failures.saturating_add(1))
}

/// Whether this was the refresh before an update (`spec.expectNoRefreshChanges`).
pub(super) fn is_pre_update_refresh(last: &LastUpdate) -> bool {
    last.operation == Some(OperationType::Refresh) && last.state == Some(UpdateState::Succeeded)
}

/// The effects that record a result if its pass ends early, for example because a read failed: the
/// events of the result must not be lost.
pub(super) fn unsaved_effects(observed: &ObservedStack, now: Timestamp) -> Vec<StackEffect> {
    let evaluation = fold_finished_update(observed, now).ok();
    let finished = evaluation.filter(|evaluation| evaluation.finished.is_some());
    let step = finished.map(|evaluation| evaluation.wait(&processing(), Requeue::Settled));
    match step {
        Some(StackStep::Finish(plan)) => plan.effects,
        _ => Vec::new(),
    }
}
