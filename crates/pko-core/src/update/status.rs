//! The status of an Update.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    Update,
    auto::v1alpha1::UpdateStatus,
    names::{
        conditions::{
            ConditionStatus::{self, False, True},
            ConditionType::{Complete, Failed, Progressing},
        },
        failures::FailureClass,
        reasons::UpdateReason,
    },
};

use super::{RunOutcome, UpdateEffect, UpdateEvaluation};
use crate::condition_set::{ConditionSet, find, is_reason, is_true, shorten};

/// Whether the run has started or may have. From then on it exists only in the workspace instance
/// of the status, which is written before an agent receives the run.
#[must_use]
pub fn has_begun(update: &Update) -> bool {
    let status = update.status.as_ref();
    status.is_some_and(|status| {
        status.workspace_instance.is_some() || is_true(&status.conditions, Progressing)
    })
}

pub(super) fn run_has_begun(evaluation: &UpdateEvaluation) -> bool {
    has_begun(&evaluation.observed.update)
}

/// The instance in which the run started, if it did.
pub(super) fn run_instance(evaluation: &UpdateEvaluation) -> Option<&str> {
    let status = evaluation.observed.update.status.as_ref();
    status.and_then(|status| status.workspace_instance.as_deref())
}

/// When the run started, if it is in progress.
pub(super) fn run_start(evaluation: &UpdateEvaluation) -> Option<Time> {
    let stored = evaluation.observed.update.status.as_ref()?;
    let progress = find(&stored.conditions, Progressing);
    let progress = progress.filter(|_| is_true(&stored.conditions, Progressing))?;
    Some(progress.last_transition_time.clone())
}

/// An Update with a run in progress; the message is for exceptional states.
pub(super) fn progressing(evaluation: &UpdateEvaluation, message: &str) -> UpdateStatus {
    unfinished_status(evaluation, True, UpdateReason::Progressing, message)
}

/// An Update with a run in progress whose agent does not respond.
pub(super) fn agent_unreachable(evaluation: &UpdateEvaluation, message: &str) -> UpdateStatus {
    unfinished_status(evaluation, True, UpdateReason::TransientFailure, message)
}

/// An Update that waits for its Workspace, the run queue or the agent.
pub(super) fn waiting(
    evaluation: &UpdateEvaluation,
    reason: UpdateReason,
    message: &str,
) -> UpdateStatus {
    unfinished_status(evaluation, False, reason, message)
}

/// The status to publish before the run starts; `None` if it has started.
pub(super) fn to_publish(evaluation: &UpdateEvaluation, instance: &str) -> Option<UpdateStatus> {
    (!run_has_begun(evaluation)).then(|| UpdateStatus {
        workspace_instance: Some(instance.to_owned()),
        ..progressing(evaluation, "")
    })
}

/// Whether the stored status has this reason for waiting.
pub(super) fn is_waiting_for(evaluation: &UpdateEvaluation, reason: UpdateReason) -> bool {
    let stored = evaluation.observed.update.status.as_ref();
    let progress = stored.and_then(|status| find(&status.conditions, Progressing));
    progress.is_some_and(|condition| condition.reason == reason.as_str())
}

fn unfinished_status(
    evaluation: &UpdateEvaluation,
    progressing: ConditionStatus,
    reason: UpdateReason,
    message: &str,
) -> UpdateStatus {
    let not_yet = UpdateReason::Progressing.as_str();
    with_conditions(
        evaluation,
        (progressing, reason.as_str(), message),
        (False, not_yet),
        (False, not_yet, ""),
    )
}

/// An Update that ends without a result.
pub(super) fn without_result(
    evaluation: &UpdateEvaluation,
    reason: UpdateReason,
    class: FailureClass,
    message: &str,
) -> UpdateStatus {
    let over = UpdateReason::Failed.as_str();
    let mut status = with_conditions(
        evaluation,
        (False, over, ""),
        (True, reason.as_str()),
        (True, over, ""),
    );
    // No agent will report when a lost run started.
    status.start_time = status.start_time.or_else(|| run_start(evaluation));
    status.message = Some(message.to_owned());
    status.failure_class = Some(class.to_string());
    status
}

/// An Update whose run has ended.
pub(super) fn with_result(evaluation: &UpdateEvaluation, outcome: &RunOutcome) -> UpdateStatus {
    // The API server would reject the whole status if the agent's reason were invalid.
    let named = outcome.reason.as_deref().filter(|reason| is_reason(reason));
    let failed = if outcome.succeeded {
        (False, UpdateReason::UpdateSucceeded.as_str())
    } else {
        (True, named.unwrap_or(UpdateReason::UpdateFailed.as_str()))
    };
    let mut status = with_conditions(
        evaluation,
        (False, UpdateReason::Complete.as_str(), ""),
        failed,
        (
            True,
            UpdateReason::Updated.as_str(),
            &outcome.notes.join("; "),
        ),
    );
    status.message = Some(shorten(&outcome.message));
    status.start_time = outcome.start.map(Time);
    status.end_time = outcome.end.map(Time);
    status.permalink.clone_from(&outcome.permalink);
    status.project_info.clone_from(&outcome.project);
    status.failure_class = outcome.class.map(|class| class.to_string());
    status.resource_changes.clone_from(&outcome.changes);
    status
}

fn with_conditions(
    evaluation: &UpdateEvaluation,
    progressing: (ConditionStatus, &str, &str),
    failed: (ConditionStatus, &str),
    complete: (ConditionStatus, &str, &str),
) -> UpdateStatus {
    let mut status = evaluation
        .observed
        .update
        .status
        .clone()
        .unwrap_or_default();
    let mut conditions = ConditionSet::new(&status.conditions, evaluation.now);
    conditions.set(Progressing, progressing.0, progressing.1, progressing.2);
    conditions.set(Failed, failed.0, failed.1, "");
    conditions.set(Complete, complete.0, complete.1, complete.2);
    status.conditions = conditions.into_conditions();
    status.observed_generation = evaluation.observed.update.metadata.generation;
    status
}

/// The patch of the status, unless it is unchanged.
pub(super) fn patch_if_changed(
    evaluation: &UpdateEvaluation,
    status: UpdateStatus,
) -> Vec<UpdateEffect> {
    let stored = evaluation.observed.update.status.as_ref();
    let write = (stored != Some(&status)).then(|| UpdateEffect::PatchStatus(Box::new(status)));
    write.into_iter().collect()
}
