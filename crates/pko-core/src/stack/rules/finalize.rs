//! The beginning and the end of a Stack: its finalizer.

use std::time::Duration;

use crate::{
    finalizers::{has_stack_finalizer, is_released},
    stack::{StackEffect, StackEvaluation, StackStep},
    step::{Requeue, finish},
};

/// How soon a Stack with a new finalizer is reconciled, if the event of that write does not arrive.
const AFTER_ADOPTION: Duration = Duration::from_secs(1);

/// Ignores a Stack that is being deleted and no longer has our finalizer.
pub(in crate::stack) fn ignore_released(evaluation: &StackEvaluation) -> Option<StackStep> {
    is_released(&evaluation.observed.stack.metadata).then(|| finish(Vec::new(), Requeue::Settled))
}

/// Adds our finalizer to a new Stack before anything is created for it.
pub(in crate::stack) fn add_finalizer(evaluation: &StackEvaluation) -> Option<StackStep> {
    let is_new = !has_stack_finalizer(&evaluation.observed.stack.metadata);
    is_new.then(|| {
        finish(
            vec![StackEffect::AddFinalizer],
            Requeue::after(AFTER_ADOPTION),
        )
    })
}

/// Releases a deleted Stack that needs no destroy.
pub(in crate::stack) fn release_without_destroy(evaluation: &StackEvaluation) -> Option<StackStep> {
    let is_free = evaluation.observed.is_deleting() && !evaluation.needs_destroy();
    is_free.then(|| evaluation.release())
}
