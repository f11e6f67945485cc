//! Removes the finalizer of a Stack that is gone or has already stored the Update's result.

use std::time::Duration;

use pko_api::{
    Stack, Update,
    names::{conditions::ConditionType, labels},
};

use super::{UpdateEffect, UpdateEvaluation, UpdateRead, UpdateStep};
use crate::{
    condition_set::is_true,
    finalizers::{has_stack_finalizer, is_released},
    step::{Requeue, finish},
};

/// For a Stack that has not stored the result yet; the Stack removes the finalizer itself.
const STACK_AGAIN: Duration = Duration::from_mins(1);

/// Removes the finalizer of a complete, deleted Update if no Stack waits for its result. Usually
/// the Stack does so. After a crash or a manual change it may not, and the Update and its namespace
/// would remain.
pub(super) fn remove_finalizer(evaluation: &UpdateEvaluation) -> Option<UpdateStep> {
    let update = &evaluation.observed.update;
    let stack = stack_name(update).filter(|_| is_complete_and_held(update))?;
    Some(
        match evaluation
            .observed
            .awaited
            .or_read(|| UpdateRead::Awaited(stack))
        {
            Err(request) => request,
            Ok(true) => finish(Vec::new(), Requeue::after(STACK_AGAIN)),
            Ok(false) => finish(vec![UpdateEffect::RemoveFinalizer], Requeue::Settled),
        },
    )
}

/// Whether a Stack waits for this Update's result. A deleted Stack without its finalizer does not.
#[must_use]
pub fn stack_awaits(stack: &Stack, update: &Update) -> bool {
    let status = stack.status.as_ref();
    let current = status.and_then(|status| status.current_update.as_ref());
    !is_released(&stack.metadata)
        && current.is_some_and(|current| current.name == update.metadata.name)
}

/// The requeue of a deleted Update that has just ended: its finalizer must be removed.
pub(super) fn requeue_while_held(update: &Update) -> Option<Requeue> {
    is_held_and_deleted(update).then(|| Requeue::after(STACK_AGAIN))
}

fn is_held_and_deleted(update: &Update) -> bool {
    has_stack_finalizer(&update.metadata) && update.metadata.deletion_timestamp.is_some()
}

fn is_complete_and_held(update: &Update) -> bool {
    let status = update.status.as_ref();
    is_held_and_deleted(update)
        && status.is_some_and(|status| is_true(&status.conditions, ConditionType::Complete))
}

/// From the label: the garbage collector may have removed the owner reference.
fn stack_name(update: &Update) -> Option<String> {
    let labels = update.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(labels::STACK_NAME).cloned())
}
