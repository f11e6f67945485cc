//! What becomes of a Stack that needs no update.

use pko_api::{
    auto::v1alpha1::OperationType,
    names::{conditions::ConditionType, events::StackEvent, reasons::StackReason},
    pulumi::v1::{LastUpdate, ReclaimPolicy, UpdateState},
};

use crate::{
    Event,
    condition_set::{Summary, brief, is_true},
    stack::{
        StackEffect, StackEvaluation, StackStep,
        facts::need::{self, Need},
        references,
        schedule::{self, FailureKind},
    },
    step::Requeue,
};

/// Settles a Stack that needs no update. That is certain only after the versions of its references
/// were read; this rule reads those that are watched.
pub(in crate::stack) fn settle(evaluation: &StackEvaluation) -> Option<StackStep> {
    match need::find(evaluation) {
        Need::Update(_) => None,
        Need::Nothing(requeue) => {
            let read = references::next_watched_read(evaluation);
            read.or_else(|| Some(finish_settled(evaluation, requeue)))
        }
    }
}

fn finish_settled(evaluation: &StackEvaluation, requeue: Requeue) -> StackStep {
    let last = evaluation.status.last_update.clone().unwrap_or_default();
    if need::is_destroyed(evaluation, &last) || is_destroy_hopeless(evaluation, &last) {
        return evaluation.release();
    }
    let summary = summary(evaluation, &last);
    let reclaims = summary == Summary::Ready && reclaims_workspace(evaluation);
    let event = reclaims.then(|| Event {
        reason: StackEvent::WorkspaceDeleted,
        message: "Workspace deleted per reclaim policy".to_owned(),
        warning: false,
    });
    let status = evaluation.status_with(&summary);
    let mut step = evaluation.plan(status, [], event, requeue);
    if let (true, StackStep::Finish(plan)) = (reclaims, &mut step) {
        // Before the status becomes Ready: a Ready Stack is not checked for this again.
        plan.effects.insert(0, StackEffect::DeleteWorkspace);
    }
    step
}

/// Whether the Workspace is deleted now, which happens once, when the Stack becomes ready.
fn reclaims_workspace(evaluation: &StackEvaluation) -> bool {
    let stored = evaluation.observed.stack.status.as_ref();
    let was_ready = stored.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready));
    let policy = evaluation.observed.stack.spec.workspace_reclaim_policy;
    policy == Some(ReclaimPolicy::Delete) && !was_ready
}

/// Whether the destroy of a Stack that never applied anything has failed too often.
fn is_destroy_hopeless(evaluation: &StackEvaluation, last: &LastUpdate) -> bool {
    evaluation.observed.is_deleting()
        && evaluation.never_applied()
        && schedule::is_too_many(&evaluation.observed.stack.spec, last.failures.unwrap_or(0))
}

/// The last result, and when the next attempt starts.
fn summary(evaluation: &StackEvaluation, last: &LastUpdate) -> Summary {
    use StackReason::{PreviewFailed, RetryingAfterFailure, UpdateConflict, UpdateFailed};

    if last.state != Some(UpdateState::Failed) {
        return Summary::Ready;
    }
    let spec = &evaluation.observed.stack.spec;
    let failures = last.failures.unwrap_or(0);
    let operation = last.operation.clone().unwrap_or(OperationType::Up);
    let next = next_attempt(evaluation, last);
    // The texts on counted failures begin as upstream's do: users match on them.
    match schedule::failure_kind(spec, last.failure_class.as_deref()) {
        FailureKind::Locked => Summary::Stalled(
            UpdateConflict,
            format!("another update holds the stack; {next}"),
        ),
        FailureKind::Transient => {
            let attempts = match last.retries.unwrap_or(1) {
                1 => "1 attempt".to_owned(),
                several => format!("{several} attempts"),
            };
            let message =
                format!("{attempts} of {operation} failed for reasons outside the stack; {next}");
            Summary::Reconciling(RetryingAfterFailure, message)
        }
        FailureKind::Counted if schedule::is_too_many(spec, failures) => Summary::Stalled(
            UpdateFailed,
            format!("{operation} failed {failures} times; {next}"),
        ),
        FailureKind::Counted if operation == OperationType::Preview => Summary::Reconciling(
            PreviewFailed,
            format!("preview failed ({failures} attempt(s)); {next}"),
        ),
        FailureKind::Counted => Summary::Reconciling(
            RetryingAfterFailure,
            format!("{failures} update failure(s); {next}"),
        ),
    }
}

/// When the next attempt starts, and why the last one failed.
fn next_attempt(evaluation: &StackEvaluation, last: &LastUpdate) -> String {
    let wait = need::retry_wait(evaluation, last);
    let when = schedule::end_of(last, wait).map_or_else(
        || "it is retried".to_owned(),
        |when| format!("next attempt at {when:.0}, or when the spec or source changes"),
    );
    match last.message.as_deref().map(brief) {
        Some(message) => format!("{when}: {message}"),
        None => when,
    }
}
