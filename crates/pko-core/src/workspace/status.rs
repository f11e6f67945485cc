//! The status of a Workspace: Ready or why not, and Stalled.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use pko_api::{
    Workspace,
    auto::v1alpha1::WorkspaceStatus,
    names::{
        conditions::{ConditionStatus, ConditionType},
        reasons::WorkspaceReason,
    },
};

use super::{AgentEndpoint, WAITING_FOR_AGENT, WorkspaceEffect, WorkspaceEvaluation, pod};
use crate::condition_set::{ConditionSet, find, is_true};

/// The stored status, if it is about the spec of now.
fn stored(evaluation: &WorkspaceEvaluation) -> Option<&WorkspaceStatus> {
    let workspace = &evaluation.observed.workspace;
    let status = workspace.status.as_ref()?;
    (status.observed_generation == workspace.metadata.generation).then_some(status)
}

/// Whether the stored status says Ready, and not for want of a pod: whoever wakes up is initialized anew.
pub(super) fn was_ready(evaluation: &WorkspaceEvaluation) -> bool {
    let Some(status) = &evaluation.observed.workspace.status else {
        return false;
    };
    let ready = find(&status.conditions, ConditionType::Ready);
    is_true(&status.conditions, ConditionType::Ready)
        && ready.is_some_and(|ready| ready.reason != WorkspaceReason::Idle.as_str())
}

/// Whether a Workspace is ready for its current spec.
#[must_use]
pub fn is_ready(workspace: &Workspace) -> bool {
    let is_deleting = workspace.metadata.deletion_timestamp.is_some();
    !is_deleting && is_current(workspace) && has_condition(workspace, ConditionType::Ready)
}

/// Whether the status is about the current spec.
#[must_use]
pub fn is_current(workspace: &Workspace) -> bool {
    let status = workspace.status.as_ref();
    status.and_then(|status| status.observed_generation) == workspace.metadata.generation
}

/// Whether the status has this condition, and it is true.
#[must_use]
pub fn has_condition(workspace: &Workspace, kind: ConditionType) -> bool {
    let status = workspace.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, kind))
}

/// Whether a Ready condition that is false describes a step that every new workspace goes through, and not a problem.
/// An agent that does not answer yet is such a step, too.
#[must_use]
pub fn is_normal_startup(ready: &Condition) -> bool {
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
pub(super) fn has_current_reason(
    evaluation: &WorkspaceEvaluation,
    reasons: &[WorkspaceReason],
) -> bool {
    let ready =
        stored(evaluation).and_then(|status| find(&status.conditions, ConditionType::Ready));
    ready.is_some_and(|ready| reasons.iter().any(|reason| reason.as_str() == ready.reason))
}

/// Ready for Updates.
pub(super) fn ready(
    evaluation: &WorkspaceEvaluation,
    reason: WorkspaceReason,
    message: &str,
) -> WorkspaceStatus {
    let status = ConditionStatus::True;
    with_conditions(evaluation, status, reason.as_str(), message, false)
}

/// Not ready, and why.
pub(super) fn not_ready(
    evaluation: &WorkspaceEvaluation,
    reason: &str,
    message: &str,
) -> WorkspaceStatus {
    with_conditions(evaluation, ConditionStatus::False, reason, message, false)
}

/// Not ready, and not soon.
pub(super) fn stalled(
    evaluation: &WorkspaceEvaluation,
    reason: &str,
    message: &str,
) -> WorkspaceStatus {
    with_conditions(evaluation, ConditionStatus::False, reason, message, true)
}

/// The status of a Workspace that nobody can reach.
pub(super) fn without_address(status: WorkspaceStatus) -> WorkspaceStatus {
    WorkspaceStatus {
        address: None,
        ..status
    }
}

/// The status of a Workspace whose agent should listen.
pub(super) fn with_address(running: &AgentEndpoint, status: WorkspaceStatus) -> WorkspaceStatus {
    WorkspaceStatus {
        address: Some(running.address.clone()),
        ..status
    }
}

fn with_conditions(
    evaluation: &WorkspaceEvaluation,
    ready: ConditionStatus,
    reason: &str,
    message: &str,
    stalled: bool,
) -> WorkspaceStatus {
    use ConditionType::{Ready, Stalled};

    let mut status = evaluation
        .observed
        .workspace
        .status
        .clone()
        .unwrap_or_default();
    let mut conditions = ConditionSet::new(&status.conditions, evaluation.now);
    conditions.set(Ready, ready, reason, message);
    if stalled {
        conditions.set(Stalled, ConditionStatus::True, reason, message);
    } else {
        conditions.remove(Stalled);
    }
    status.conditions = conditions.into_conditions();
    status.observed_generation = evaluation.observed.workspace.metadata.generation;
    status
}

/// The write of a status, unless it is stored already.
pub(super) fn patch_if_changed(
    evaluation: &WorkspaceEvaluation,
    status: WorkspaceStatus,
) -> Vec<WorkspaceEffect> {
    let stored = evaluation.observed.workspace.status.as_ref();
    let write = (stored != Some(&status)).then(|| WorkspaceEffect::PatchStatus(Box::new(status)));
    write.into_iter().collect()
}
