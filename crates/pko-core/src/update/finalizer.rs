//! Updates that their Stack holds and will never let go: it is gone, or has long recorded how they ended.

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

/// For a Stack that has yet to record the result: its own look ends the wait.
const STACK_AGAIN: Duration = Duration::from_mins(1);

/// Lets go of an Update that is over and deleted if nobody waits for its result. The Stack does so itself unless a crash or
/// somebody's hand came in between; without this one the Update would stay for ever, and its namespace with it.
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

/// Whether a Stack waits for this Update's result. One that goes and that somebody has let go by hand records nothing more.
#[must_use]
pub fn stack_awaits(stack: &Stack, update: &Update) -> bool {
    let status = stack.status.as_ref();
    let current = status.and_then(|status| status.current_update.as_ref());
    !is_released(&stack.metadata)
        && current.is_some_and(|current| current.name == update.metadata.name)
}

/// When an Update that was deleted, and has just ended, is looked at again: somebody has to let it go.
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

/// The garbage collector may have taken the owner's reference away; the label stays.
fn stack_name(update: &Update) -> Option<String> {
    let labels = update.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(labels::STACK_NAME).cloned())
}
