//! Folding a finished Update into the Stack's status.

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
    rules::update,
    schedule::{Failing, failing},
};
use crate::{
    Event, Fact,
    condition_set::{find, is_true, shorten},
    finalizers::is_released,
    step::Requeue,
};

/// How an Update ended.
struct Ending {
    operation: Option<OperationType>,
    permalink: Option<String>,
    /// Well, and what else there is to say; or why not.
    result: Result<Option<String>, Failure>,
    /// What else was done.
    note: String,
    /// The Update that holds our finalizer.
    release: Option<String>,
}

struct Failure {
    message: String,
    class: Option<String>,
}

/// The case to decide on. Where an Update was under way and has ended, its result is in the status; where
/// that can't be told yet, this is the question to ask.
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
    // A Stack that nobody holds any more is not worth a question.
    if is_released(&observed.stack.metadata) {
        return Ok(evaluation);
    }
    let name = current.name.clone().unwrap_or_default();
    match &observed.current_update {
        Fact::Unknown if !name.is_empty() => Err(StackStep::Read(StackRead::CurrentUpdate(name))),
        // A crash came before it was made, or somebody took it away with force. Nobody will say how it ended, so it is as
        // if it had never been: if it is needed still, it is made again (upstream waits for ever, issue 1292).
        Fact::Unknown | Fact::Known(None) => {
            evaluation.status.current_update = None;
            Ok(evaluation)
        }
        Fact::Known(Some(update)) if !is_complete(update) => Ok(evaluation),
        Fact::Known(Some(update)) => finished(evaluation, &current, update),
    }
}

/// Whether an Update has ended. Its word is final, whatever happened to the object since.
fn is_complete(update: &Update) -> bool {
    let status = update.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, ConditionType::Complete))
}

fn finished(
    mut evaluation: StackEvaluation,
    current: &CurrentUpdate,
    update: &Update,
) -> Result<StackEvaluation, StackStep> {
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
    let ending = Ending {
        operation,
        permalink: ended.permalink.filter(|link| !link.is_empty()),
        result,
        note: note.unwrap_or_default(),
        release: update.metadata.name.clone(),
    };
    Ok(recorded(evaluation, current, ending))
}

/// The outputs of an Update that has some replace the ones before, and go where the spec wants them. What went wrong
/// with that is a remark: the update itself succeeded.
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
    let published = operation == Some(&OperationType::Up)
        && !evaluation.observed.stack.spec.outputs_to.is_empty();
    if !published {
        return Ok(left_out);
    }
    match &evaluation.observed.published {
        Fact::Unknown => Err(StackStep::Write(StackWrite::PublishOutputs(secret))),
        Fact::Known(published) => Ok(joined(left_out, published.clone().err())),
    }
}

fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}; {other}")),
        (one, other) => one.or(other),
    }
}

fn recorded(
    mut evaluation: StackEvaluation,
    current: &CurrentUpdate,
    ending: Ending,
) -> StackEvaluation {
    evaluation.finished = Some(FinishedUpdate {
        release: ending.release.clone(),
        events: events(&ending),
    });
    let previous = evaluation.status.last_update.take();
    let spec = &evaluation.observed.stack.spec;
    let last = last_update(spec, current, previous.as_ref(), ending, evaluation.now);
    evaluation.status.last_update = Some(last);
    evaluation.status.current_update = None;
    evaluation.status.references.clone_from(&current.references);
    evaluation
}

/// Upstream's events, but for a destroy, which upstream reports as `StackCreated`.
fn events(ending: &Ending) -> Vec<Event<StackEvent>> {
    let event = |reason, message: String, warning| Event {
        reason,
        message,
        warning,
    };
    let is_destroy = ending.operation == Some(OperationType::Destroy);
    match &ending.result {
        Ok(remark) => {
            let (reason, done) = if is_destroy {
                (StackEvent::StackDestroyed, "Successfully destroyed stack")
            } else {
                (StackEvent::StackCreated, "Successfully updated stack")
            };
            let mut done = done.to_owned();
            if !ending.note.is_empty() {
                done = format!("{done}; {}", ending.note);
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
    ending: Ending,
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
        permalink: ending.permalink,
        last_resync_time: Some(Time(now)),
        ..LastUpdate::default()
    };
    let first_half = ending.operation == Some(OperationType::Refresh);
    match ending.result {
        // The failures before it are those of the update that follows it.
        Ok(_) if first_half => LastUpdate {
            operation: ending.operation,
            state: Some(UpdateState::Succeeded),
            failures: before(attempt),
            ..common
        },
        Ok(remark) => LastUpdate {
            operation: ending.operation,
            state: Some(UpdateState::Succeeded),
            message: remark.map(|remark| shorten(&remark)),
            last_successful_commit: current.commit.clone(),
            ..common
        },
        Err(failure) => {
            let counted = failing(spec, failure.class.as_deref()) == Failing::Counted;
            let retries = previous.and_then(|previous| previous.retries).unwrap_or(0);
            LastUpdate {
                operation: ending.operation,
                state: Some(UpdateState::Failed),
                message: Some(shorten(&failure.message)).filter(|message| !message.is_empty()),
                failures: if counted {
                    Some(attempt)
                } else {
                    before(attempt)
                },
                failure_class: failure.class,
                retries: (!counted).then(|| retries.saturating_add(1)),
                ..common
            }
        }
    }
}

/// The number of failures that the status shows before the one of this attempt.
fn before(attempt: i64) -> Option<i64> {
    (attempt > 0).then(|| attempt.saturating_sub(1))
}

/// The number that this attempt has if it fails: how many failures came before, for the same spec, request and revision.
/// A new revision starts anew: it may be the fix.
pub(super) fn attempt(current: &CurrentUpdate, previous: Option<&LastUpdate>) -> i64 {
    // Upstream leaves an empty text out.
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
    // Upstream leaves a zero out, too.
    let uncounted = previous.retries.is_some() || is_pre_update_refresh(previous);
    let none = i64::from(!uncounted);
    previous
        .failures
        .map_or(none, |failures| failures.saturating_add(1))
}

/// Whether this was the refresh that comes before an update.
pub(super) fn is_pre_update_refresh(last: &LastUpdate) -> bool {
    last.operation == Some(OperationType::Refresh) && last.state == Some(UpdateState::Succeeded)
}

/// What is to be kept of a result when the pass that found it can't come to its end: the source may be slow or gone, and
/// a result that was seen is not seen again for the first time.
pub(super) fn unsaved(observed: &ObservedStack, now: Timestamp) -> Vec<StackEffect> {
    let evaluation = fold_finished_update(observed, now).ok();
    let finished = evaluation.filter(|evaluation| evaluation.finished.is_some());
    let kept =
        finished.map(|evaluation| evaluation.waiting(&update::processing(), Requeue::Settled));
    match kept {
        Some(StackStep::Finish(plan)) => plan.effects,
        _ => Vec::new(),
    }
}
