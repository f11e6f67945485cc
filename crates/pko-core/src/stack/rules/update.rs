//! The Update under way, and the next one.

use std::time::Duration;

use pko_api::{
    Update,
    auto::v1alpha1::OperationType,
    names::{events::StackEvent, reasons::StackReason},
    pulumi::v1::{CurrentUpdate, StackStatus},
};

use super::{finalize, source, sync};
use crate::{
    Class,
    condition_set::Summary,
    stack::{Case, Event, Question, Refusal, Step, absorb, desired},
    step::Requeue,
};

/// An Update's own events end the wait; this is for one that was missed.
const LOOK_AGAIN: Duration = Duration::from_mins(5);
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
    let running = case.status.current_update.is_some();
    running.then(|| case.waiting(&processing(), Requeue::after(LOOK_AGAIN)))
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
