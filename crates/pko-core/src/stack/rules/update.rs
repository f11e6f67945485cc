//! The Update under way, and the next one.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pko_api::{
    Update,
    auto::v1alpha1::OperationType,
    names::{
        conditions::ConditionType,
        events::StackEvent,
        reasons::{StackReason, UpdateReason},
    },
    pulumi::v1::{CurrentUpdate, ReferencesStatus, StackStatus},
};

use super::{finalize, kept_workspace, source, sync, workspace};
use crate::{
    Class, Known,
    condition_set::{Summary, find},
    stack::{Case, Effect, Event, Question, Refusal, Step, absorb, desired, references},
    step::Requeue,
    update::has_begun,
};

/// An Update's own events end the wait; this is for one that was missed.
const LOOK_AGAIN: Duration = Duration::from_mins(5);
/// How long an Update waits for its Workspace before that is compared with what the spec and the source say by now.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);
/// For an Update that the API server does not take as it is.
const REFUSED_AGAIN: Duration = Duration::from_mins(2);
/// For an Update that could not be made just now.
const FAILED_AGAIN: Duration = Duration::from_secs(10);

pub(in crate::stack) fn processing() -> Summary {
    Summary::Reconciling(
        StackReason::StackProcessing,
        "stack is being processed".to_owned(),
    )
}

/// Waits for the Update that runs. One that has ended is in the status already, and no longer current.
pub(in crate::stack) fn wait_for_current(case: &Case) -> Option<Step> {
    case.status.current_update.as_ref()?;
    if let Some(name) = unwanted(case) {
        let status = case.summarised(&processing());
        let cancel = [Effect::DeleteUpdate(name)];
        return Some(case.plan(status, cancel, None, Requeue::after(LOOK_AGAIN)));
    }
    let again = match waits_since(case).map(|since| case.now.duration_since(since)) {
        None => LOOK_AGAIN,
        Some(waited) if waited >= PATIENCE => return Some(workspace::keep_current(case)),
        Some(waited) => PATIENCE.saturating_sub(waited).unsigned_abs(),
    };
    Some(case.waiting(&processing(), Requeue::after(again)))
}

/// The current Update, if it has not begun and a deletion has no use for it. Its workspace may
/// never be ready again, and a destroy may be unwanted by now.
fn unwanted(case: &Case) -> Option<String> {
    let Known::Known(Some(update)) = &case.world.current_update else {
        return None;
    };
    let is_destroy = update.spec.operation == Some(OperationType::Destroy);
    let is_wanted = !case.world.is_deleting() || (is_destroy && case.world.owes_destroy());
    let is_deleted = update.metadata.deletion_timestamp.is_some();
    if is_wanted || is_deleted || has_begun(update) {
        return None;
    }
    update.metadata.name.clone()
}

/// Since when the Update has waited for the Workspace, if it does. One that is not what the Stack is about any more
/// waits for another Workspace than the Stack would make now.
fn waits_since(case: &Case) -> Option<Timestamp> {
    let Known::Known(Some(update)) = &case.world.current_update else {
        return None;
    };
    let destroys = update.spec.operation == Some(OperationType::Destroy);
    let conditions = &update.status.as_ref()?.conditions;
    let progressing = find(conditions, ConditionType::Progressing)?;
    let reasons = [
        UpdateReason::WorkspaceNotReady,
        UpdateReason::WorkspaceNotFound,
    ];
    let waits = reasons
        .iter()
        .any(|reason| reason.as_str() == progressing.reason);
    let is_canceled = update.metadata.deletion_timestamp.is_some();
    let waits = waits && !is_canceled && !has_begun(update);
    let waits = waits && destroys == case.world.is_deleting();
    waits.then_some(progressing.last_transition_time.0)
}

/// Starts an Update.
pub(in crate::stack) fn launch(case: &Case) -> Option<Step> {
    let revision = source::known(case)?.revision;
    let sync::Need::Update(trigger) = sync::needed(case) else {
        return None;
    };
    let mut current = CurrentUpdate {
        generation: Some(case.world.generation()),
        reconcile_request: Some(case.world.request().into_owned()),
        name: None,
        commit: Some(revision),
        attempt: None,
        references: versions_of_run(case),
    };
    let last = case.status.last_update.as_ref();
    let attempt = absorb::attempt(&current, last);
    current.attempt = Some(if trigger.anew { 0 } else { attempt });
    let operation = desired::operation(&case.world, &case.status, &current);
    let wanted = desired::WantedUpdate {
        operation: operation.clone(),
        message: &trigger.message,
        urgency: trigger.urgency,
        name: desired::UpdateName::of(&case.world.stack, last, &operation, &current),
    };
    let update = match desired::update(&case.world, &wanted) {
        Ok(update) => update,
        Err(problem) => return Some(case.refused(problem)),
    };
    current.name.clone_from(&update.metadata.name);
    let mut status = case.summarised(&processing());
    status.current_update = Some(current);
    if operation == OperationType::Up {
        status.applied = Some(true);
    }
    Some(created(case, update, status, &trigger.message))
}

/// The versions that the Update goes with: in a Workspace that is used as it is, those that it was
/// started with.
fn versions_of_run(case: &Case) -> Option<ReferencesStatus> {
    if kept_workspace::is_unchanged(case) {
        return case.status.references.clone();
    }
    references::of_run(&case.world, &case.status)
}

fn created(case: &Case, update: Update, status: StackStatus, message: &str) -> Step {
    let ask = || Question::CreateUpdate(Box::new(update), Box::new(status.clone()));
    let created = match case.world.created.or_ask(ask) {
        Ok(created) => created,
        Err(question) => return question,
    };
    // A status without the Update was read before, so this one differs from what is stored.
    let published = case.after_publishing(status.clone());
    if let Err(refusal) = created {
        return published.blocked(&refused(case, refusal));
    }
    let detected = Event {
        reason: StackEvent::StackUpdateDetected,
        message: message.to_owned(),
        warning: false,
    };
    let again = Requeue::after(LOOK_AGAIN);
    published.plan(status, case.release_again(), Some(detected), again)
}

fn refused(case: &Case, refusal: &Refusal) -> Class {
    match refusal {
        Refusal::NamespaceTerminating => finalize::namespace_terminating(case),
        Refusal::Invalid(message) => Class::Wait(
            StackReason::SpecInvalid,
            format!(
                "the API server does not take the Update that spec.updateTemplate makes: {message}"
            ),
            REFUSED_AGAIN,
        ),
        Refusal::Failed(message) => Class::Retry(
            StackReason::StackProcessing,
            format!("the Update could not be made, and is made again in a moment: {message}"),
            FAILED_AGAIN,
        ),
    }
}
