//! Whether somebody wants an Update to end before its time, and why.

use pko_api::{
    auto::v1alpha1::UpdateStatus,
    names::{annotations, failures::FailureClass, reasons::UpdateReason},
};

use super::{UpdateEvaluation, status};

/// Why it is to end, as a part of a sentence; nothing if nobody wants that.
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

/// The status of an Update that ends before its run began.
pub(super) fn status_before_start(evaluation: &UpdateEvaluation, why: &str) -> UpdateStatus {
    let message = format!("canceled before the operation began: {why}");
    status::without_result(
        evaluation,
        UpdateReason::Canceled,
        FailureClass::Canceled,
        &message,
    )
}

/// The status of an Update whose run is gone with what it ran in.
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
