//! `spec.suspend`.

use pko_api::{names::reasons::StackReason, pulumi::v1::UpdateState};

use crate::{
    condition_set::Summary,
    stack::{StackEvaluation, StackStep},
    step::Requeue,
};

/// Starts no run while the Stack is suspended. A deletion is not delayed by it.
pub(in crate::stack) fn suspend(evaluation: &StackEvaluation) -> Option<StackStep> {
    let is_suspended = evaluation.observed.stack.spec.suspend.unwrap_or(false)
        && !evaluation.observed.is_deleting();
    is_suspended.then(|| evaluation.wait(&summary(evaluation), Requeue::Settled))
}

/// Keeps the last result, without a claim that it is up to date.
fn summary(evaluation: &StackEvaluation) -> Summary {
    let last = evaluation.status.last_update.as_ref();
    match last.and_then(|last| last.state.clone()) {
        Some(UpdateState::Succeeded) => Summary::ReadyBut(
            StackReason::Suspended,
            "the stack is suspended: its last update succeeded; set spec.suspend to false to allow another"
                .to_owned(),
        ),
        Some(_) => Summary::Stalled(
            StackReason::Suspended,
            "the stack is suspended: its last update failed; set spec.suspend to false to retry"
                .to_owned(),
        ),
        None => Summary::Stalled(
            StackReason::Suspended,
            "the stack is suspended: its first update starts once spec.suspend is false".to_owned(),
        ),
    }
}
