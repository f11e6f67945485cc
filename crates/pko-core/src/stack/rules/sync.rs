//! Whether an update is needed, and where the Stack is if none is.

use std::time::Duration;

use pko_api::{
    GoDuration,
    auto::v1alpha1::OperationType,
    names::reasons::StackReason,
    pulumi::v1::{LastUpdate, ReclaimPolicy, UpdateState},
};

use super::{finalize, source};
use crate::{
    condition_set::Summary,
    stack::{Case, Effect, Event, Step, schedule},
    step::{Requeue, finish},
};
use pko_api::names::events::StackEvent;

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
        let message = format!("New stack generation: {}", world.generation());
        return if world.is_deleting() {
            deletion()
        } else {
            Need::Update(message)
        };
    }
    if last.reconcile_request.as_deref().unwrap_or_default() != world.request() {
        return Need::Update(format!("Sync request: {:?}", world.request()));
    }
    match &last.state {
        Some(UpdateState::Succeeded)
            if world.is_deleting() && last.operation != Some(OperationType::Destroy) =>
        {
            deletion()
        }
        Some(UpdateState::Succeeded) => after_success(case, last),
        Some(UpdateState::Failed) => after_failure(case, last),
        _ => Need::Nothing(Requeue::Settled),
    }
}

fn after_success(case: &Case, last: &LastUpdate) -> Need {
    let spec = &case.world.stack.spec;
    if let Some(message) = new_revision(case, last.last_successful_commit.as_deref()) {
        return Need::Update(message);
    }
    if case.world.is_deleting() || !spec.continue_resync_on_commit_match.unwrap_or(false) {
        return Need::Nothing(Requeue::Settled);
    }
    after_a_wait(
        case,
        last,
        schedule::resync_period(spec),
        "Resync time elapsed",
    )
}

fn after_failure(case: &Case, last: &LastUpdate) -> Need {
    let failures = last.failures.unwrap_or(0);
    if let Some(message) = new_revision(case, last.last_attempted_commit.as_deref()) {
        return Need::Update(message);
    }
    // A destroy that is owed is tried for ever, ever more slowly: giving up would leave the Stack stuck.
    if failures >= schedule::RETRY_LIMIT && !case.world.is_deleting() {
        return Need::Nothing(Requeue::Settled);
    }
    after_a_wait(
        case,
        last,
        schedule::backoff(&case.world.stack.spec, failures),
        "Backoff time elapsed",
    )
}

fn after_a_wait(case: &Case, last: &LastUpdate, wait: Duration, over: &str) -> Need {
    match schedule::remaining(last, wait, case.now) {
        Some(left) => Need::Nothing(Requeue::after(left)),
        None => Need::Update(format!("{over}: {}", GoDuration::from(wait))),
    }
}

fn new_revision(case: &Case, seen: Option<&str>) -> Option<String> {
    let revision = source::known(case)?.revision;
    // A destroy has no revision.
    let new = !case.world.is_deleting() && seen.unwrap_or_default() != revision;
    new.then(|| format!("New commit detected: {revision:?}"))
}

fn settled(case: &Case, requeue: Requeue) -> Step {
    let last = case.status.last_update.clone().unwrap_or_default();
    let succeeded = last.state == Some(UpdateState::Succeeded);
    if case.world.is_deleting() && succeeded {
        return finalize::release(case);
    }
    let mut effects = case.recorded(case.summarised(&summary(&last)));
    let reclaim = case.world.stack.spec.workspace_reclaim_policy == Some(ReclaimPolicy::Delete);
    // Once, with the result: a Workspace that is gone is not deleted at every look.
    if reclaim && succeeded && !case.absorbed.is_empty() {
        effects.push(Effect::DeleteWorkspace);
        effects.push(Effect::Emit(Event {
            reason: StackEvent::WorkspaceDeleted,
            message: "Workspace deleted per reclaim policy".to_owned(),
            warning: false,
        }));
    }
    finish(effects, requeue)
}

fn summary(last: &LastUpdate) -> Summary {
    if last.state != Some(UpdateState::Failed) {
        return Summary::Ready;
    }
    let failures = last.failures.unwrap_or(0);
    let operation = last.operation.clone().unwrap_or(OperationType::Up);
    if failures >= schedule::RETRY_LIMIT {
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
