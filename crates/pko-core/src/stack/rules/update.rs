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
    Blocked, Event, Fact,
    condition_set::{Summary, find},
    stack::{
        Refusal, StackEffect, StackEvaluation, StackStep, StackWrite, desired, finished_update,
        references,
    },
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
pub(in crate::stack) fn wait_for_current(evaluation: &StackEvaluation) -> Option<StackStep> {
    evaluation.status.current_update.as_ref()?;
    if let Some(name) = unwanted(evaluation) {
        let status = evaluation.summarised(&processing());
        let cancel = [StackEffect::DeleteUpdate(name)];
        return Some(evaluation.plan(status, cancel, None, Requeue::after(LOOK_AGAIN)));
    }
    let again = match waits_since(evaluation).map(|since| evaluation.now.duration_since(since)) {
        None => LOOK_AGAIN,
        Some(waited) if waited >= PATIENCE => return Some(workspace::keep_current(evaluation)),
        Some(waited) => PATIENCE.saturating_sub(waited).unsigned_abs(),
    };
    Some(evaluation.waiting(&processing(), Requeue::after(again)))
}

/// The current Update, if it has not begun and a deletion has no use for it. Its workspace may
/// never be ready again, and a destroy may be unwanted by now.
fn unwanted(evaluation: &StackEvaluation) -> Option<String> {
    let Fact::Known(Some(update)) = &evaluation.observed.current_update else {
        return None;
    };
    let is_destroy = update.spec.operation == Some(OperationType::Destroy);
    let is_wanted =
        !evaluation.observed.is_deleting() || (is_destroy && evaluation.observed.owes_destroy());
    let is_deleted = update.metadata.deletion_timestamp.is_some();
    if is_wanted || is_deleted || has_begun(update) {
        return None;
    }
    update.metadata.name.clone()
}

/// Since when the Update has waited for the Workspace, if it does. One that is not what the Stack is about any more
/// waits for another Workspace than the Stack would make now.
fn waits_since(evaluation: &StackEvaluation) -> Option<Timestamp> {
    let Fact::Known(Some(update)) = &evaluation.observed.current_update else {
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
    let waits = waits && destroys == evaluation.observed.is_deleting();
    waits.then_some(progressing.last_transition_time.0)
}

/// Starts an Update.
pub(in crate::stack) fn launch(evaluation: &StackEvaluation) -> Option<StackStep> {
    let revision = source::known(evaluation)?.revision;
    let sync::Need::Update(trigger) = sync::needed(evaluation) else {
        return None;
    };
    let mut current = CurrentUpdate {
        generation: Some(evaluation.observed.generation()),
        reconcile_request: Some(evaluation.observed.request().into_owned()),
        name: None,
        commit: Some(revision),
        attempt: None,
        references: versions_of_run(evaluation),
    };
    let last = evaluation.status.last_update.as_ref();
    let attempt = finished_update::attempt(&current, last);
    current.attempt = Some(if trigger.anew { 0 } else { attempt });
    let operation = desired::operation(&evaluation.observed, &evaluation.status, &current);
    let wanted = desired::DesiredUpdate {
        operation: operation.clone(),
        message: &trigger.message,
        urgency: trigger.urgency,
        name: desired::UpdateName::of(&evaluation.observed.stack, last, &operation, &current),
    };
    let update = match desired::update(&evaluation.observed, &wanted) {
        Ok(update) => update,
        Err(problem) => return Some(evaluation.refused(problem)),
    };
    current.name.clone_from(&update.metadata.name);
    let mut status = evaluation.summarised(&processing());
    status.current_update = Some(current);
    if operation == OperationType::Up {
        status.applied = Some(true);
    }
    Some(created(evaluation, update, status, &trigger.message))
}

/// The versions that the Update goes with: in a Workspace that is used as it is, those that it was
/// started with.
fn versions_of_run(evaluation: &StackEvaluation) -> Option<ReferencesStatus> {
    if kept_workspace::is_unchanged(evaluation) {
        return evaluation.status.references.clone();
    }
    references::of_run(&evaluation.observed, &evaluation.status)
}

fn created(
    evaluation: &StackEvaluation,
    update: Update,
    status: StackStatus,
    message: &str,
) -> StackStep {
    let write = || StackWrite::CreateUpdate(Box::new(update), Box::new(status.clone()));
    let created = match evaluation.observed.created.or_write(write) {
        Ok(created) => created,
        Err(question) => return question,
    };
    // A status without the Update was read before, so this one differs from what is stored.
    let published = evaluation.after_publishing(status.clone());
    if let Err(refusal) = created {
        return published.blocked(&refused(evaluation, refusal));
    }
    let detected = Event {
        reason: StackEvent::StackUpdateDetected,
        message: message.to_owned(),
        warning: false,
    };
    let again = Requeue::after(LOOK_AGAIN);
    published.plan(status, evaluation.release_again(), Some(detected), again)
}

fn refused(evaluation: &StackEvaluation, refusal: &Refusal) -> Blocked {
    match refusal {
        Refusal::NamespaceTerminating => finalize::namespace_terminating(evaluation),
        Refusal::Invalid(message) => Blocked::OnDependency(
            StackReason::SpecInvalid,
            format!(
                "the API server does not take the Update that spec.updateTemplate makes: {message}"
            ),
            REFUSED_AGAIN,
        ),
        Refusal::Failed(message) => Blocked::Transient(
            StackReason::StackProcessing,
            format!("the Update could not be made, and is made again in a moment: {message}"),
            FAILED_AGAIN,
        ),
    }
}
