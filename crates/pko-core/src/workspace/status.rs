//! The status of a Workspace: the conditions Ready and Stalled.

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

/// The stored status, if it describes the current spec.
fn current_status(evaluation: &WorkspaceEvaluation) -> Option<&WorkspaceStatus> {
    let workspace = &evaluation.observed.workspace;
    let status = workspace.status.as_ref()?;
    (status.observed_generation == workspace.metadata.generation).then_some(status)
}

/// Whether the stored status is Ready with a running pod. An idle workspace is initialized again.
pub(super) fn was_ready(evaluation: &WorkspaceEvaluation) -> bool {
    let Some(status) = &evaluation.observed.workspace.status else {
        return false;
    };
    let ready = find(&status.conditions, ConditionType::Ready);
    is_true(&status.conditions, ConditionType::Ready)
        && ready.is_some_and(|ready| ready.reason != WorkspaceReason::Idle.as_str())
}

#[must_use]
pub fn is_ready(workspace: &Workspace) -> bool {
    let is_deleting = workspace.metadata.deletion_timestamp.is_some();
    !is_deleting && is_current(workspace) && has_condition(workspace, ConditionType::Ready)
}

/// Whether the status describes the current spec.
#[must_use]
pub fn is_current(workspace: &Workspace) -> bool {
    let status = workspace.status.as_ref();
    status.and_then(|status| status.observed_generation) == workspace.metadata.generation
}

/// Whether the condition is True.
#[must_use]
pub fn has_condition(workspace: &Workspace, kind: ConditionType) -> bool {
    let status = workspace.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, kind))
}

/// Whether Ready=False describes a normal step of a new workspace, and not a problem. An agent that
/// does not respond yet is a normal step.
#[must_use]
pub fn is_normal_startup(ready: &Condition) -> bool {
    use WorkspaceReason::{
        ConnectionFailed, Deleting, Initializing, Installing, RollingUpdate, WaitingForReplicas,
    };

    let normal = [
        ConnectionFailed,
        Deleting,
        Initializing,
        Installing,
        RollingUpdate,
    ];
    normal.iter().any(|reason| reason.as_str() == ready.reason)
        || (ready.reason == WaitingForReplicas.as_str()
            && [pod::WAITING, WAITING_FOR_AGENT].contains(&ready.message.as_str()))
}

/// Whether the stored status describes the current spec, with one of these reasons.
pub(super) fn has_current_reason(
    evaluation: &WorkspaceEvaluation,
    reasons: &[WorkspaceReason],
) -> bool {
    let ready = current_status(evaluation)
        .and_then(|status| find(&status.conditions, ConditionType::Ready));
    ready.is_some_and(|ready| reasons.iter().any(|reason| reason.as_str() == ready.reason))
}

pub(super) fn ready(
    evaluation: &WorkspaceEvaluation,
    reason: WorkspaceReason,
    message: &str,
) -> WorkspaceStatus {
    let status = ConditionStatus::True;
    with_conditions(evaluation, status, reason.as_str(), message, false)
}

pub(super) fn not_ready(
    evaluation: &WorkspaceEvaluation,
    reason: &str,
    message: &str,
) -> WorkspaceStatus {
    with_conditions(evaluation, ConditionStatus::False, reason, message, false)
}

/// Not ready until the user acts.
pub(super) fn stalled(
    evaluation: &WorkspaceEvaluation,
    reason: &str,
    message: &str,
) -> WorkspaceStatus {
    with_conditions(evaluation, ConditionStatus::False, reason, message, true)
}

pub(super) fn without_address(status: WorkspaceStatus) -> WorkspaceStatus {
    WorkspaceStatus {
        address: None,
        ..status
    }
}

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

/// The patch of the status, unless it is unchanged.
pub(super) fn patch_if_changed(
    evaluation: &WorkspaceEvaluation,
    status: WorkspaceStatus,
) -> Vec<WorkspaceEffect> {
    let stored = evaluation.observed.workspace.status.as_ref();
    let write = (stored != Some(&status)).then(|| WorkspaceEffect::PatchStatus(Box::new(status)));
    write.into_iter().collect()
}
