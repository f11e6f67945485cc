//! Whether an update is needed, and where the Stack is if none is.

use std::time::Duration;

use pko_api::{
    GoDuration,
    auto::v1alpha1::OperationType,
    names::{conditions::ConditionType, events::StackEvent, reasons::StackReason},
    pulumi::v1::{LastUpdate, ReclaimPolicy, UpdateState},
};

use super::{finalize, source};
use crate::{
    condition_set::{Summary, is_true},
    stack::{Case, Effect, Event, Step, schedule},
    step::Requeue,
};

/// Settles a Stack that needs no update.
pub(in crate::stack) fn settle(case: &Case) -> Option<Step> {
    match needed(case) {
        Need::Update(_) => None,
        Need::Nothing(requeue) => Some(settled(case, requeue)),
    }
}

/// Whether an update is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Yes, and why.
    Update(String),
    /// No; look again then.
    Nothing(Requeue),
}

/// The first that matches decides, as in upstream's operator.
pub(super) fn needed(case: &Case) -> Need {
    let world = &case.world;
    let deletion = || Need::Update("Stack marked for deletion".to_owned());
    let Some(last) = &case.status.last_update else {
        return Need::Update("Initial stack update".to_owned());
    };
    if last.generation != Some(world.generation()) {
        if world.is_deleting() {
            return deletion();
        }
        return Need::Update(format!("New stack generation: {}", world.generation()));
    }
    if last.reconcile_request.as_deref().unwrap_or_default() != world.request() {
        return Need::Update(format!("Sync request: {:?}", world.request()));
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
    if let Some(message) = new_revision(case, last.last_successful_commit.as_deref()) {
        return Need::Update(message);
    }
    if !spec.continue_resync_on_commit_match.unwrap_or(false) {
        return Need::Nothing(Requeue::Settled);
    }
    let period = schedule::resync_period(spec);
    after_a_wait(case, last, period, "Resync time elapsed")
}

fn after_failure(case: &Case, last: &LastUpdate) -> Need {
    if let Some(message) = new_revision(case, last.last_attempted_commit.as_deref()) {
        return Need::Update(message);
    }
    if gives_up(case, last) {
        return Need::Nothing(Requeue::Settled);
    }
    let failures = last.failures.unwrap_or(0);
    let wait = schedule::backoff(&case.world.stack.spec, failures);
    after_a_wait(case, last, wait, "Backoff time elapsed")
}

/// Whether it has failed too often. A destroy that is owed is tried for ever, ever more slowly: giving up
/// would leave the Stack stuck.
fn gives_up(case: &Case, last: &LastUpdate) -> bool {
    last.failures.unwrap_or(0) >= schedule::RETRY_LIMIT && !case.world.is_deleting()
}

fn after_a_wait(case: &Case, last: &LastUpdate, wait: Duration, over: &str) -> Need {
    match schedule::remaining(last, wait, case.now) {
        Some(left) => Need::Nothing(Requeue::after(left)),
        None => Need::Update(format!("{over}: {}", GoDuration::from(wait))),
    }
}

fn new_revision(case: &Case, seen: Option<&str>) -> Option<String> {
    let revision = source::known(case)?.revision;
    let new = seen.unwrap_or_default() != revision;
    new.then(|| format!("New commit detected: {revision:?}"))
}

fn settled(case: &Case, requeue: Requeue) -> Step {
    let last = case.status.last_update.clone().unwrap_or_default();
    if is_destroyed(case, &last) {
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

fn summary(case: &Case, last: &LastUpdate) -> Summary {
    if last.state != Some(UpdateState::Failed) {
        return Summary::Ready;
    }
    let failures = last.failures.unwrap_or(0);
    let operation = last.operation.clone().unwrap_or(OperationType::Up);
    if gives_up(case, last) {
        let message = format!(
            "{operation} failed {failures} times; not retrying until the spec or source changes"
        );
        return Summary::Stalled(StackReason::UpdateFailed, message);
    }
    if operation == OperationType::Preview {
        return Summary::Reconciling(
            StackReason::PreviewFailed,
            format!("preview failed ({failures} attempt(s))"),
        );
    }
    Summary::Reconciling(
        StackReason::RetryingAfterFailure,
        format!("{failures} update failure(s)"),
    )
}
