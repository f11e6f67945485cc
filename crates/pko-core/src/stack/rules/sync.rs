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
    condition_set::{Summary, brief, is_true},
    stack::{Case, Effect, Event, Step, absorb, references, schedule, schedule::Failing},
    step::Requeue,
};

/// Settles a Stack that needs no update. That is certain only once the versions of what it refers to are known, as far as
/// they cost nothing.
pub(in crate::stack) fn settle(case: &Case) -> Option<Step> {
    match needed(case) {
        Need::Update(_) => None,
        Need::Nothing(requeue) => {
            let question = references::ask_for_watched(case);
            question.or_else(|| Some(settled(case, requeue)))
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
pub(super) fn needed(case: &Case) -> Need {
    let world = &case.world;
    let deletion = || update(Urgency::Destroy, "Stack marked for deletion");
    let Some(last) = &case.status.last_update else {
        let urgency = if world.is_deleting() {
            Urgency::Destroy
        } else {
            Urgency::Change
        };
        return update(urgency, "Initial stack update");
    };
    if last.generation != Some(world.generation()) {
        if world.is_deleting() {
            return deletion();
        }
        let message = format!("New stack generation: {}", world.generation());
        return update(Urgency::Change, message);
    }
    if last.reconcile_request.as_deref().unwrap_or_default() != world.request() {
        let message = format!("Sync request: {:?}", world.request());
        return update(Urgency::Request, message);
    }
    match &last.state {
        Some(UpdateState::Failed) => after_failure(case, last),
        _ if is_destroyed(case, last) => Need::Nothing(Requeue::Settled),
        _ if world.is_deleting() => deletion(),
        Some(UpdateState::Succeeded) => after_success(case, last),
        _ => Need::Nothing(Requeue::Settled),
    }
}

/// Whether the destroy that a deletion owes is done.
fn is_destroyed(case: &Case, last: &LastUpdate) -> bool {
    case.world.is_deleting()
        && last.state == Some(UpdateState::Succeeded)
        && last.operation == Some(OperationType::Destroy)
}

fn after_success(case: &Case, last: &LastUpdate) -> Need {
    let spec = &case.world.stack.spec;
    let first_half = absorb::is_first_half(last);
    let seen = if first_half {
        &last.last_attempted_commit
    } else {
        &last.last_successful_commit
    };
    if let Some(message) = new_revision(case, seen.as_deref()) {
        return update(Urgency::Change, message);
    }
    if first_half {
        return update(Urgency::Change, "Refresh found no changes");
    }
    if let Some(trigger) = changed_reference(case) {
        return Need::Update(trigger);
    }
    if !spec.continue_resync_on_commit_match.unwrap_or(false) {
        return Need::Nothing(Requeue::Settled);
    }
    let period = schedule::resync_period(spec);
    after_a_wait(case, last, period, "Resync time elapsed")
}

fn after_failure(case: &Case, last: &LastUpdate) -> Need {
    if let Some(message) = new_revision(case, last.last_attempted_commit.as_deref()) {
        return update(urgency(case, Urgency::Change), message);
    }
    if let Some(trigger) = changed_reference(case) {
        return Need::Update(trigger);
    }
    let spec = &case.world.stack.spec;
    let wait = schedule::wait_after(spec, last);
    match resync_after_failure(case, last).filter(|period| *period < wait) {
        None => after_a_wait(case, last, wait, "Backoff time elapsed"),
        Some(period) => match after_a_wait(case, last, period, "Resync time elapsed") {
            Need::Update(trigger) => Need::Update(Trigger {
                anew: true,
                ..trigger
            }),
            nothing @ Need::Nothing(_) => nothing,
        },
    }
}

/// The resync period of a Stack that has failed too often: a resync starts anew.
fn resync_after_failure(case: &Case, last: &LastUpdate) -> Option<Duration> {
    let spec = &case.world.stack.spec;
    let resynced = spec.continue_resync_on_commit_match.unwrap_or(false)
        && !case.world.is_deleting()
        && schedule::is_too_many(spec, last.failures.unwrap_or(0));
    resynced.then(|| schedule::resync_period(spec))
}

/// What belongs to a deletion is as urgent as the deletion.
fn urgency(case: &Case, otherwise: Urgency) -> Urgency {
    if case.world.is_deleting() {
        Urgency::Destroy
    } else {
        otherwise
    }
}

fn after_a_wait(case: &Case, last: &LastUpdate, wait: Duration, over: &str) -> Need {
    if let Some(left) = schedule::remaining(last, wait, case.now) {
        return Need::Nothing(Requeue::after(left));
    }
    let message = format!("{over}: {}", GoDuration::from(wait));
    update(urgency(case, Urgency::Resync), message)
}

fn new_revision(case: &Case, seen: Option<&str>) -> Option<String> {
    let revision = source::known(case)?.revision;
    let new = seen.unwrap_or_default() != revision;
    new.then(|| format!("New commit detected: {revision:?}"))
}

/// A ConfigMap or Secret that is not what the last update went with. Whatever failed before may be mended by it.
fn changed_reference(case: &Case) -> Option<Trigger> {
    let changed = references::changed(&case.world, &case.status)?;
    Some(Trigger {
        message: format!("Referenced {} changed: {:?}", changed.kind, changed.name),
        urgency: urgency(case, Urgency::Change),
        anew: true,
    })
}

fn settled(case: &Case, requeue: Requeue) -> Step {
    let last = case.status.last_update.clone().unwrap_or_default();
    if is_destroyed(case, &last) || is_given_up(case, &last) {
        return finalize::release(case);
    }
    let summary = summary(case, &last);
    let reclaim = summary == Summary::Ready && is_reclaimed(case);
    let news = reclaim.then(|| Event {
        reason: StackEvent::WorkspaceDeleted,
        message: "Workspace deleted per reclaim policy".to_owned(),
        warning: false,
    });
    let mut step = case.plan(case.summarised(&summary), [], news, requeue);
    if let (true, Step::Finish(plan)) = (reclaim, &mut step) {
        // Before the status says Ready, after which nobody would come back for it.
        plan.effects.insert(0, Effect::DeleteWorkspace);
    }
    step
}

/// Whether the Workspace goes now: once, as the Stack becomes ready.
fn is_reclaimed(case: &Case) -> bool {
    let stored = case.world.stack.status.as_ref();
    let was_ready = stored.is_some_and(|status| is_true(&status.conditions, ConditionType::Ready));
    let policy = case.world.stack.spec.workspace_reclaim_policy;
    policy == Some(ReclaimPolicy::Delete) && !was_ready
}

/// Whether a destroy has failed often enough for a Stack of which nothing was ever applied.
fn is_given_up(case: &Case, last: &LastUpdate) -> bool {
    case.world.is_deleting()
        && case.never_applied()
        && schedule::is_too_many(&case.world.stack.spec, last.failures.unwrap_or(0))
}

/// Where the Stack is after its last result, and what comes next.
fn summary(case: &Case, last: &LastUpdate) -> Summary {
    use StackReason::{PreviewFailed, RetryingAfterFailure, UpdateConflict, UpdateFailed};

    if last.state != Some(UpdateState::Failed) {
        return Summary::Ready;
    }
    let spec = &case.world.stack.spec;
    let failures = last.failures.unwrap_or(0);
    let operation = last.operation.clone().unwrap_or(OperationType::Up);
    let next = next(case, last);
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
fn next(case: &Case, last: &LastUpdate) -> String {
    let wait = schedule::wait_after(&case.world.stack.spec, last);
    let wait = resync_after_failure(case, last).map_or(wait, |period| period.min(wait));
    let when = schedule::end_of(last, wait).map_or_else(
        || "it is tried again".to_owned(),
        |when| format!("next attempt at {when:.0}, or when the spec or source changes"),
    );
    match last.message.as_deref().map(brief) {
        Some(message) => format!("{when}: {message}"),
        None => when,
    }
}
