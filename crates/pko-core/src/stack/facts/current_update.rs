//! How long the current Update has waited for its Workspace.

use jiff::{SignedDuration, Timestamp};
use pko_api::{
    auto::v1alpha1::OperationType,
    names::{conditions::ConditionType, reasons::UpdateReason},
};

use crate::{Fact, condition_set::find, stack::StackEvaluation, update::has_begun};

/// How long an Update waits for its Workspace before the Workspace is compared with the current
/// spec and source.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// What is left of the Update's patience with its Workspace, if it waits for one. Not positive if
/// the Workspace is due for a comparison.
pub(in crate::stack) fn patience_left(evaluation: &StackEvaluation) -> Option<SignedDuration> {
    let waited = evaluation.now.duration_since(waits_since(evaluation)?);
    Some(PATIENCE.saturating_sub(waited))
}

/// Since when the Update has waited for the Workspace. An Update that no longer fits the Stack
/// waits for another Workspace than the Stack would apply now.
fn waits_since(evaluation: &StackEvaluation) -> Option<Timestamp> {
    evaluation.status.current_update.as_ref()?;
    let Fact::Known(Some(update)) = &evaluation.observed.current_update else {
        return None;
    };
    let is_destroy = update.spec.operation == Some(OperationType::Destroy);
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
    let fits = is_destroy == evaluation.observed.is_deleting();
    let waits = waits && fits && !is_canceled && !has_begun(update);
    waits.then_some(progressing.last_transition_time.0)
}
