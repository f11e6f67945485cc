//! Cancellation of Updates: the reason, and the resulting status.

use pko_api::{
    auto::v1alpha1::UpdateStatus,
    names::{annotations, failures::FailureClass, reasons::UpdateReason},
};

use super::{UpdateEvaluation, status};

/// The reason to cancel the Update, as a part of a sentence; `None` if it is not canceled.
pub(super) fn reason(evaluation: &UpdateEvaluation) -> Option<&'static str> {
    let metadata = &evaluation.observed.update.metadata;
    let mut owners = metadata.owner_references.iter().flatten();
    if metadata.deletion_timestamp.is_some() {
        Some("the Update was deleted")
    } else if is_annotated(evaluation) {
        Some("it has the annotation auto.pulumi.com/cancel")
    } else if !owners.any(|owner| owner.controller == Some(true)) {
        Some("its Workspace was deleted")
    } else {
        None
    }
}

pub(super) fn is_annotated(evaluation: &UpdateEvaluation) -> bool {
    let annotations = evaluation.observed.update.metadata.annotations.as_ref();
    let value = annotations.and_then(|annotations| annotations.get(annotations::CANCEL));
    value.is_some_and(|value| !["", "false"].contains(&value.as_str()))
}

/// The status of an Update that is canceled before its run started.
pub(super) fn status_before_start(evaluation: &UpdateEvaluation, why: &str) -> UpdateStatus {
    let message = format!("canceled before the operation began: {why}");
    status::without_result(
        evaluation,
        UpdateReason::Canceled,
        FailureClass::Canceled,
        &message,
    )
}

/// The status of an Update whose run was lost with its pod or process.
pub(super) fn status_of_lost_run(evaluation: &UpdateEvaluation, what: &str) -> UpdateStatus {
    match reason(evaluation) {
        Some(why) => {
            let message = format!("canceled: {why}; {what}");
            status::without_result(
                evaluation,
                UpdateReason::Canceled,
                FailureClass::Canceled,
                &message,
            )
        }
        None => status::without_result(
            evaluation,
            UpdateReason::Aborted,
            FailureClass::Interrupted,
            what,
        ),
    }
}
