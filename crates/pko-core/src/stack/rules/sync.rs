//! Whether an update is needed, and where the Stack is if none is.

use std::time::Duration;

use pko_api::{
    GoDuration,
    auto::v1alpha1::OperationType,
    names::{
        conditions::ConditionType, events::StackEvent, reasons::StackReason, urgencies::Urgency,
    },
    pulumi::v1::{LastUpdate, ReclaimPolicy, UpdateState},
};

use super::{finalize, source};
use crate::{
    Event,
    condition_set::{Summary, brief, is_true},
    stack::{
        StackEffect, StackEvaluation, StackStep, finished_update, references, schedule,
        schedule::Failing,
    },
    step::Requeue,
};

/// Settles a Stack that needs no update. That is certain only once the versions of what it refers to are known, as far as
/// they cost nothing.
pub(in crate::stack) fn settle(evaluation: &StackEvaluation) -> Option<StackStep> {
    match needed(evaluation) {
        Need::Update(_) => None,
        Need::Nothing(requeue) => {
            let question = references::ask_for_watched(evaluation);
            question.or_else(|| Some(settled(evaluation, requeue)))
        }
    }
}

/// Whether an update is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Yes.
    Update(Trigger),
    /// No; look again then.
    Nothing(Requeue),
}

/// Why an update is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trigger {
    /// As the user is told.
    pub(super) message: String,
    pub(super) urgency: Urgency,
    /// The failures before do not count any more.
    pub(super) anew: bool,
}

fn update(urgency: Urgency, message: impl Into<String>) -> Need {
    Need::Update(Trigger {
        message: message.into(),
        urgency,
        anew: false,
    })
}

/// The first that matches decides, as in upstream's operator.
pub(super) fn needed(evaluation: &StackEvaluation) -> Need {
    let observed = &evaluation.observed;
    let deletion = || update(Urgency::Destroy, "Stack marked for deletion");
    let Some(last) = &evaluation.status.last_update else {
        let urgency = if observed.is_deleting() {
            Urgency::Destroy
        } else {
            Urgency::Change
        };
        return update(urgency, "Initial stack update");
    };
    if last.generation != Some(observed.generation()) {
        if observed.is_deleting() {
            return deletion();
        }
        let message = format!("New stack generation: {}", observed.generation());
        return update(Urgency::Change, message);
    }
    if last.reconcile_request.as_deref().unwrap_or_default() != observed.request() {
        let message = format!("Sync request: {:?}", observed.request());
        return update(Urgency::Request, message);
    }
    match &last.state {
        Some(UpdateState::Failed) => after_failure(evaluation, last),
        _ if is_destroyed(evaluation, last) => Need::Nothing(Requeue::Settled),
        _ if observed.is_deleting() => deletion(),
        Some(UpdateState::Succeeded) => after_success(evaluation, last),
        _ => Need::Nothing(Requeue::Settled),
    }
}

/// Whether the destroy that a deletion owes is done.
fn is_destroyed(evaluation: &StackEvaluation, last: &LastUpdate) -> bool {
    evaluation.observed.is_deleting()
        && last.state == Some(UpdateState::Succeeded)
        && last.operation == Some(OperationType::Destroy)
}

fn after_success(evaluation: &StackEvaluation, last: &LastUpdate) -> Need {
    let spec = &evaluation.observed.stack.spec;
    let is_refresh = finished_update::is_pre_update_refresh(last);
    let seen = if is_refresh {
        &last.last_attempted_commit
    } else {
        &last.last_successful_commit
    };
    if let Some(message) = new_revision(evaluation, seen.as_deref()) {
        return update(Urgency::Change, message);
    }
    if is_refresh {
        return update(Urgency::Change, "Refresh found no changes");
    }
    if let Some(trigger) = changed_reference(evaluation) {
        return Need::Update(trigger);
    }
    if !spec.continue_resync_on_commit_match.unwrap_or(false) {
        return Need::Nothing(Requeue::Settled);
    }
    let period = schedule::resync_period(spec);
    after_a_wait(evaluation, last, period, "Resync time elapsed")
}

fn after_failure(evaluation: &StackEvaluation, last: &LastUpdate) -> Need {
    if let Some(message) = new_revision(evaluation, last.last_attempted_commit.as_deref()) {
        return update(urgency(evaluation, Urgency::Change), message);
    }
    if let Some(trigger) = changed_reference(evaluation) {
        return Need::Update(trigger);
    }
    let spec = &evaluation.observed.stack.spec;
    let wait = schedule::wait_after(spec, last);
    match resync_after_failure(evaluation, last).filter(|period| *period < wait) {
        None => after_a_wait(evaluation, last, wait, "Backoff time elapsed"),
        Some(period) => match after_a_wait(evaluation, last, period, "Resync time elapsed") {
            Need::Update(trigger) => Need::Update(Trigger {
                anew: true,
                ..trigger
            }),
            nothing @ Need::Nothing(_) => nothing,
        },
    }
}

/// The resync period of a Stack that has failed too often: a resync starts anew.
fn resync_after_failure(evaluation: &StackEvaluation, last: &LastUpdate) -> Option<Duration> {
    let spec = &evaluation.observed.stack.spec;
    let resynced = spec.continue_resync_on_commit_match.unwrap_or(false)
        && !evaluation.observed.is_deleting()
        && schedule::is_too_many(spec, last.failures.unwrap_or(0));
    resynced.then(|| schedule::resync_period(spec))
}

/// What belongs to a deletion is as urgent as the deletion.
fn urgency(evaluation: &StackEvaluation, otherwise: Urgency) -> Urgency {
    if evaluation.observed.is_deleting() {
        Urgency::Destroy
    } else {
        otherwise
    }
}

fn after_a_wait(
    evaluation: &StackEvaluation,
    last: &LastUpdate,
    wait: Duration,
    over: &str,
) -> Need {
    if let Some(left) = schedule::remaining(last, wait, evaluation.now) {
        return Need::Nothing(Requeue::after(left));
    }
    let message = format!("{over}: {}", GoDuration::from(wait));
    update(urgency(evaluation, Urgency::Resync), message)
}

fn new_revision(evaluation: &StackEvaluation, seen: Option<&str>) -> Option<String> {
    let revision = source::known(evaluation)?.revision;
    let new = seen.unwrap_or_default() != revision;
    new.then(|| format!("New commit detected: {revision:?}"))
}

/// A ConfigMap or Secret that is not what the last update went with. Whatever failed before may be mended by it.
fn changed_reference(evaluation: &StackEvaluation) -> Option<Trigger> {
    let changed = references::changed(&evaluation.observed, &evaluation.status)?;
    Some(Trigger {
        message: format!("Referenced {} changed: {:?}", changed.kind, changed.name),
        urgency: urgency(evaluation, Urgency::Change),
        anew: true,
    })
}

fn settled(evaluation: &StackEvaluation, requeue: Requeue) -> StackStep {
    let last = evaluation.status.last_update.clone().unwrap_or_default();
    if is_destroyed(evaluation, &last) || is_given_up(evaluation, &last) {
        return finalize::release(evaluation);
    }
    let summary = summary(evaluation, &last);
    let reclaim = summary == Summary::Ready && is_reclaimed(evaluation);
    let news = reclaim.then(|| Event {
        reason: StackEvent::WorkspaceDeleted,
        message: "Workspace deleted per reclaim policy".to_owned(),
        warning: false,
    });
    let mut step = evaluation.plan(evaluation.summarised(&summary), [], news, requeue);
    if let (true, StackStep::Finish(plan)) = (reclaim, &mut step) {
        // Before the status says Ready, after which nobody would come back for it.
        plan.effects.insert(0, StackEffect::DeleteWorkspace);
    }
    step
}

/// Whether the Workspace goes now: once, as the Stack becomes ready.
fn is_reclaimed(evaluation: &StackEvaluation) -> bool {
    let stored = evaluation.observed.stack.status.as_ref();
    let was_ready = stored.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready));
    let policy = evaluation.observed.stack.spec.workspace_reclaim_policy;
    policy == Some(ReclaimPolicy::Delete) && !was_ready
}

/// Whether a destroy has failed often enough for a Stack of which nothing was ever applied.
fn is_given_up(evaluation: &StackEvaluation, last: &LastUpdate) -> bool {
    evaluation.observed.is_deleting()
        && evaluation.never_applied()
        && schedule::is_too_many(&evaluation.observed.stack.spec, last.failures.unwrap_or(0))
}

/// Where the Stack is after its last result, and what comes next.
fn summary(evaluation: &StackEvaluation, last: &LastUpdate) -> Summary {
    use StackReason::{PreviewFailed, RetryingAfterFailure, UpdateConflict, UpdateFailed};

    if last.state != Some(UpdateState::Failed) {
        return Summary::Ready;
    }
    let spec = &evaluation.observed.stack.spec;
    let failures = last.failures.unwrap_or(0);
    let operation = last.operation.clone().unwrap_or(OperationType::Up);
    let next = next(evaluation, last);
    match schedule::failing(spec, last.failure_class.as_deref()) {
        Failing::Held => Summary::Stalled(
            UpdateConflict,
            format!("another update holds the stack; {next}"),
        ),
        Failing::Passing => {
            let retries = last.retries.unwrap_or(1);
            let message = format!(
                "{operation} came to nothing {retries} time(s) by no fault of the stack; {next}"
            );
            Summary::Reconciling(RetryingAfterFailure, message)
        }
        Failing::Counted if schedule::is_too_many(spec, failures) => Summary::Stalled(
            UpdateFailed,
            format!("{operation} failed {failures} times; {next}"),
        ),
        Failing::Counted if operation == OperationType::Preview => Summary::Reconciling(
            PreviewFailed,
            format!("preview failed ({failures} attempt(s)); {next}"),
        ),
        Failing::Counted => Summary::Reconciling(
            RetryingAfterFailure,
            format!("{failures} update failure(s); {next}"),
        ),
    }
}

/// When it is tried again, and what went wrong.
fn next(evaluation: &StackEvaluation, last: &LastUpdate) -> String {
    let wait = schedule::wait_after(&evaluation.observed.stack.spec, last);
    let wait = resync_after_failure(evaluation, last).map_or(wait, |period| period.min(wait));
    let when = schedule::end_of(last, wait).map_or_else(
        || "it is tried again".to_owned(),
        |when| format!("next attempt at {when:.0}, or when the spec or source changes"),
    );
    match last.message.as_deref().map(brief) {
        Some(message) => format!("{when}: {message}"),
        None => when,
    }
}
