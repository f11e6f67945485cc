//! The current Update, and the next one.

use std::time::Duration;

use jiff::SignedDuration;
use pko_api::{
    Update,
    auto::v1alpha1::OperationType,
    names::{events::StackEvent, reasons::StackReason},
    pulumi::v1::{CurrentUpdate, ReferencesStatus, StackStatus},
};

use crate::{
    Blocked, Event, Fact,
    stack::{
        Refusal, StackEffect, StackEvaluation, StackStep, StackWrite, desired,
        facts::{
            current_update, existing_workspace,
            need::{self, Need},
            source,
        },
        finished_update,
        outcome::processing,
        references,
    },
    step::Requeue,
    update::has_begun,
};

/// An Update's own events end the wait; this is in case one is lost.
const WAIT: Duration = Duration::from_mins(5);
/// For an Update that the API server rejects.
const REJECTED_AGAIN: Duration = Duration::from_mins(2);
/// For an Update that could not be created just now.
const FAILED_AGAIN: Duration = Duration::from_secs(10);

/// Cancels the current Update if it has not begun and a deletion does not need it. Its workspace
/// may never become ready again.
pub(in crate::stack) fn cancel_unneeded(evaluation: &StackEvaluation) -> Option<StackStep> {
    evaluation.status.current_update.as_ref()?;
    let name = unneeded_update(evaluation)?;
    let status = evaluation.status_with(&processing());
    let cancel = [StackEffect::DeleteUpdate(name)];
    Some(evaluation.plan(status, cancel, None, Requeue::after(WAIT)))
}

fn unneeded_update(evaluation: &StackEvaluation) -> Option<String> {
    let Fact::Known(Some(update)) = &evaluation.observed.current_update else {
        return None;
    };
    let is_destroy = update.spec.operation == Some(OperationType::Destroy);
    let is_needed =
        !evaluation.observed.is_deleting() || (is_destroy && evaluation.needs_destroy());
    let is_canceled = update.metadata.deletion_timestamp.is_some();
    if is_needed || is_canceled || has_begun(update) {
        return None;
    }
    update.metadata.name.clone()
}

/// Waits for the current Update. The result of a finished one is in the status already.
pub(in crate::stack) fn wait_for_current(evaluation: &StackEvaluation) -> Option<StackStep> {
    evaluation.status.current_update.as_ref()?;
    let again =
        current_update::patience_left(evaluation).map_or(WAIT, SignedDuration::unsigned_abs);
    Some(evaluation.wait(&processing(), Requeue::after(again)))
}

/// Creates the next Update.
pub(in crate::stack) fn launch(evaluation: &StackEvaluation) -> Option<StackStep> {
    let revision = source::find(evaluation).ok()?.revision;
    let Need::Update(trigger) = need::find(evaluation) else {
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
    current.attempt = Some(if trigger.resets_failures { 0 } else { attempt });
    let operation = desired::operation(&evaluation.observed, &evaluation.status, &current);
    let desired = desired::DesiredUpdate {
        operation: operation.clone(),
        message: &trigger.message,
        urgency: trigger.urgency,
        name: desired::UpdateName::of(&evaluation.observed.stack, last, &operation, &current),
    };
    let update = match desired::update(&evaluation.observed, &desired) {
        Ok(update) => update,
        Err(problem) => return Some(evaluation.reject_spec(problem)),
    };
    current.name.clone_from(&update.metadata.name);
    let mut status = evaluation.status_with(&processing());
    status.current_update = Some(current);
    if operation == OperationType::Up {
        status.applied = Some(true);
    }
    Some(create(evaluation, update, status, &trigger.message))
}

/// The versions that the Update runs with: in a Workspace that is used without a change, those with
/// which it was started.
fn versions_of_run(evaluation: &StackEvaluation) -> Option<ReferencesStatus> {
    if existing_workspace::is_unchanged(evaluation) {
        return evaluation.status.references.clone();
    }
    references::versions_of_run(&evaluation.observed, &evaluation.status)
}

fn create(
    evaluation: &StackEvaluation,
    update: Update,
    status: StackStatus,
    message: &str,
) -> StackStep {
    let write = || StackWrite::CreateUpdate(Box::new(update), Box::new(status.clone()));
    let created = match evaluation.observed.created.or_write(write) {
        Ok(created) => created,
        Err(request) => return request,
    };
    // The observed status did not name the Update, so this one differs from it.
    let published = evaluation.after_publishing(status.clone());
    if let Err(refusal) = created {
        return published.block(&creation_problem(evaluation, refusal));
    }
    let event = Event {
        reason: StackEvent::StackUpdateDetected,
        message: message.to_owned(),
        warning: false,
    };
    let release = evaluation.release_last_update();
    published.plan(status, release, Some(event), Requeue::after(WAIT))
}

fn creation_problem(evaluation: &StackEvaluation, refusal: &Refusal) -> Blocked {
    match refusal {
        Refusal::NamespaceTerminating => evaluation.namespace_terminating(),
        Refusal::Invalid(message) => Blocked::OnDependency(
            StackReason::SpecInvalid,
            format!("the API server rejects the Update from spec.updateTemplate: {message}"),
            REJECTED_AGAIN,
        ),
        Refusal::Failed(message) => Blocked::Transient(
            StackReason::StackProcessing,
            format!("failed to create the Update; retrying: {message}"),
            FAILED_AGAIN,
        ),
    }
}
