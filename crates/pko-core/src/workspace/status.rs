//! The status of a Workspace: Ready or why not, and Stalled.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use pko_api::{
    auto::v1alpha1::WorkspaceStatus,
    names::{
        conditions::{ConditionStatus, ConditionType},
        reasons::WorkspaceReason,
    },
};

use super::{Case, Effect, Running, WAITING_FOR_AGENT, pod};
use crate::condition_set::{ConditionSet, find, is_true};

/// The stored status, if it is about the spec of now.
fn stored(case: &Case) -> Option<&WorkspaceStatus> {
    let workspace = &case.world.workspace;
    let status = workspace.status.as_ref()?;
    (status.observed_generation == workspace.metadata.generation).then_some(status)
}

/// Whether the stored status says Ready, and not for want of a pod: whoever wakes up is initialized anew.
pub(super) fn was_ready(case: &Case) -> bool {
    let Some(status) = &case.world.workspace.status else {
        return false;
    };
    let ready = find(&status.conditions, ConditionType::Ready);
    is_true(&status.conditions, ConditionType::Ready)
        && ready.is_some_and(|ready| ready.reason != WorkspaceReason::Idle.as_str())
}

/// Whether a Ready condition that is false describes a step that every new workspace goes through, and not a problem.
/// An agent that does not answer yet is such a step, too.
#[must_use]
pub fn is_usual_start(ready: &Condition) -> bool {
    use WorkspaceReason::{
        ConnectionFailed, Deleting, Initializing, Installing, RollingUpdate, WaitingForReplicas,
    };

    let usual = [
        ConnectionFailed,
        Deleting,
        Initializing,
        Installing,
        RollingUpdate,
    ];
    usual.iter().any(|reason| reason.as_str() == ready.reason)
        || (ready.reason == WaitingForReplicas.as_str()
            && [pod::WAITING, WAITING_FOR_AGENT].contains(&ready.message.as_str()))
}

/// Whether the stored status is about the spec of now, and gives one of these reasons.
pub(super) fn is_about_now(case: &Case, reasons: &[WorkspaceReason]) -> bool {
    let ready = stored(case).and_then(|status| find(&status.conditions, ConditionType::Ready));
    ready.is_some_and(|ready| reasons.iter().any(|reason| reason.as_str() == ready.reason))
}

/// Ready for Updates.
pub(super) fn ready(case: &Case, reason: WorkspaceReason, message: &str) -> WorkspaceStatus {
    let status = ConditionStatus::True;
    with_conditions(case, status, reason.as_str(), message, false)
}

/// Not ready, and why.
pub(super) fn not_ready(case: &Case, reason: &str, message: &str) -> WorkspaceStatus {
    with_conditions(case, ConditionStatus::False, reason, message, false)
}

/// Not ready, and not soon.
pub(super) fn stalled(case: &Case, reason: &str, message: &str) -> WorkspaceStatus {
    with_conditions(case, ConditionStatus::False, reason, message, true)
}

/// The status of a Workspace that nobody can reach.
pub(super) fn without_address(status: WorkspaceStatus) -> WorkspaceStatus {
    WorkspaceStatus {
        address: None,
        ..status
    }
}

/// The status of a Workspace whose agent should listen.
pub(super) fn at(running: &Running, status: WorkspaceStatus) -> WorkspaceStatus {
    WorkspaceStatus {
        address: Some(running.address.clone()),
        ..status
    }
}

fn with_conditions(
    case: &Case,
    ready: ConditionStatus,
    reason: &str,
    message: &str,
    stalled: bool,
) -> WorkspaceStatus {
    use ConditionType::{Ready, Stalled};

    let mut status = case.world.workspace.status.clone().unwrap_or_default();
    let mut conditions = ConditionSet::new(&status.conditions, case.now);
    conditions.set(Ready, ready, reason, message);
    if stalled {
        conditions.set(Stalled, ConditionStatus::True, reason, message);
    } else {
        conditions.remove(Stalled);
    }
    status.conditions = conditions.into_conditions();
    status.observed_generation = case.world.workspace.metadata.generation;
    status
}

/// The write of a status, unless it is stored already.
pub(super) fn written(case: &Case, status: WorkspaceStatus) -> Vec<Effect> {
    let stored = case.world.workspace.status.as_ref();
    let write = (stored != Some(&status)).then(|| Effect::PatchStatus(Box::new(status)));
    write.into_iter().collect()
}
