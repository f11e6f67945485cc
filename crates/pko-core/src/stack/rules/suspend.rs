//! A Stack that is not to be touched for a while.

use pko_api::{names::reasons::StackReason, pulumi::v1::UpdateState};

use crate::{
    condition_set::Summary,
    stack::{StackEvaluation, StackStep},
    step::Requeue,
};

/// Starts nothing while the spec says so. A deletion is never held up by it.
pub(in crate::stack) fn rest(evaluation: &StackEvaluation) -> Option<StackStep> {
    let suspended = evaluation.observed.stack.spec.suspend.unwrap_or(false)
        && !evaluation.observed.is_deleting();
    suspended.then(|| evaluation.waiting(&summary(evaluation), Requeue::Settled))
}

/// What the last result was stays true; nobody says that it is up to date.
fn summary(evaluation: &StackEvaluation) -> Summary {
    let last = evaluation.status.last_update.as_ref();
    match last.and_then(|last| last.state.clone()) {
        Some(UpdateState::Succeeded) => Summary::ReadyBut(
            StackReason::Suspended,
            "the stack is suspended: its last update succeeded, and no other is started until spec.suspend is false"
                .to_owned(),
        ),
        Some(_) => Summary::Stalled(
            StackReason::Suspended,
            "the stack is suspended: its last update failed, and is tried again once spec.suspend is false"
                .to_owned(),
        ),
        None => Summary::Stalled(
            StackReason::Suspended,
            "the stack is suspended: its first update starts once spec.suspend is false".to_owned(),
        ),
    }
}
