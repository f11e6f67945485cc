//! The status of an Update, from its beginning to its end.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    Update,
    auto::v1alpha1::UpdateStatus,
    names::{
        conditions::{
            ConditionStatus::{self, False, True},
            ConditionType::{Complete, Failed, Progressing},
        },
        reasons::UpdateReason,
    },
};

use super::{Case, Effect, RunOutcome};
use crate::condition_set::{ConditionSet, find, is_reason, is_true, shortened};

/// Whether the run has begun, as far as the stored status tells.
#[must_use]
pub fn has_begun(update: &Update) -> bool {
    let status = update.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, Progressing))
}

pub(super) fn is_progressing(case: &Case) -> bool {
    has_begun(&case.world.update)
}

/// An Update whose run is under way.
pub(super) fn progressing(case: &Case) -> UpdateStatus {
    unfinished(case, True, UpdateReason::Progressing, "")
}

/// An Update that waits for its Workspace or for the agent.
pub(super) fn waiting(case: &Case, reason: UpdateReason, message: &str) -> UpdateStatus {
    unfinished(case, False, reason, message)
}

/// The status while the agent is asked, if it is another than is stored. An Update that could not reach its agent
/// says so until it has: a try now and then does not make it come and go.
pub(super) fn published(case: &Case) -> Option<UpdateStatus> {
    let stored = case.world.update.status.as_ref();
    let progress = stored.and_then(|status| find(&status.conditions, Progressing));
    let unreached = progress
        .is_some_and(|condition| condition.reason == UpdateReason::TransientFailure.as_str());
    let status = progressing(case);
    (!unreached && stored != Some(&status)).then_some(status)
}

fn unfinished(
    case: &Case,
    progressing: ConditionStatus,
    reason: UpdateReason,
    message: &str,
) -> UpdateStatus {
    let not_yet = UpdateReason::Progressing.as_str();
    with_conditions(
        case,
        (progressing, reason.as_str(), message),
        (False, not_yet),
        (False, not_yet),
    )
}

/// An Update that ends without a result.
pub(super) fn aborted(case: &Case, reason: UpdateReason, message: &str) -> UpdateStatus {
    let over = UpdateReason::Failed.as_str();
    let mut status = with_conditions(
        case,
        (False, over, ""),
        (True, reason.as_str()),
        (True, over),
    );
    status.message = Some(message.to_owned());
    status
}

/// An Update whose run has ended.
pub(super) fn ended(case: &Case, outcome: &RunOutcome) -> UpdateStatus {
    // The agent's word; the API server would refuse the whole status for one that is no reason.
    let named = outcome.reason.as_deref().filter(|reason| is_reason(reason));
    let failed = if outcome.succeeded {
        (False, UpdateReason::UpdateSucceeded.as_str())
    } else {
        (True, named.unwrap_or(UpdateReason::UpdateFailed.as_str()))
    };
    let mut status = with_conditions(
        case,
        (False, UpdateReason::Complete.as_str(), ""),
        failed,
        (True, UpdateReason::Updated.as_str()),
    );
    status.message = Some(shortened(&outcome.message));
    status.start_time = outcome.start.map(Time);
    status.end_time = outcome.end.map(Time);
    status.permalink.clone_from(&outcome.permalink);
    status.project_info.clone_from(&outcome.project);
    status
}

fn with_conditions(
    case: &Case,
    progressing: (ConditionStatus, &str, &str),
    failed: (ConditionStatus, &str),
    complete: (ConditionStatus, &str),
) -> UpdateStatus {
    let mut status = case.world.update.status.clone().unwrap_or_default();
    let mut conditions = ConditionSet::new(&status.conditions, case.now);
    conditions.set(Progressing, progressing.0, progressing.1, progressing.2);
    conditions.set(Failed, failed.0, failed.1, "");
    conditions.set(Complete, complete.0, complete.1, "");
    status.conditions = conditions.into_conditions();
    status.observed_generation = case.world.update.metadata.generation;
    status
}

/// The write of a status, unless it is stored already.
pub(super) fn written(case: &Case, status: UpdateStatus) -> Vec<Effect> {
    let stored = case.world.update.status.as_ref();
    let write = (stored != Some(&status)).then(|| Effect::PatchStatus(Box::new(status)));
    write.into_iter().collect()
}
