//! The rules of the Update's table, one function for each row.

use std::time::Duration;

use jiff::SignedDuration;
use pko_api::{
    Workspace,
    auto::v1alpha1::{OperationType, UpdateStatus},
    names::{
        conditions::ConditionType,
        events::UpdateEvent,
        failures::FailureClass,
        reasons::{UpdateReason, WorkspaceReason},
    },
};

use super::{
    AdmissionRequest, AgentState, UpdateEffect, UpdateEvaluation, UpdateRead, UpdateStep,
    UpdateWrite, cancel, finalizer, run, run_deadline::end_if_overdue, run_request, status,
};
use crate::{
    Event, Fact,
    condition_set::{find, is_true},
    run_queue::{Admission, QueuePosition},
    step::{Requeue, finish},
    workspace::{is_ready, owner_reference},
};

/// In case an event of the Workspace is missed.
const WORKSPACE_RECHECK: Duration = Duration::from_secs(30);
/// For a run near the front of the queue.
const QUEUE_RECHECK: Duration = Duration::from_secs(30);
/// For a run far back in the queue, so that a long queue costs little.
const FAR_QUEUE_RECHECK: Duration = Duration::from_mins(5);
/// For an agent that did not respond.
const AGENT_RETRY: Duration = Duration::from_secs(5);

/// The time in which upstream's agent ends an operation whose caller is gone: it sends an
/// interrupt, and kills `pulumi` ten seconds later.
const ORPHAN_ENDS_WITHIN: SignedDuration = SignedDuration::from_secs(15);

/// A complete Update is kept for its time to live.
pub(super) fn expire(evaluation: &UpdateEvaluation) -> Option<UpdateStep> {
    let update = &evaluation.observed.update;
    let conditions = &update.status.as_ref()?.conditions;
    let complete = find(conditions, ConditionType::Complete)
        .filter(|_| is_true(conditions, ConditionType::Complete))?;
    let deleting = update.metadata.deletion_timestamp.is_some();
    let lifetime = update.spec.ttl_after_completed.as_ref();
    let Some(lifetime) = lifetime.filter(|_| !deleting) else {
        return Some(finish(Vec::new(), Requeue::Settled));
    };
    let age = evaluation
        .now
        .duration_since(complete.last_transition_time.0);
    let left = SignedDuration::try_from(lifetime.get())
        .unwrap_or(SignedDuration::MAX)
        .saturating_sub(age);
    if left.is_positive() {
        return Some(finish(Vec::new(), Requeue::after(left.unsigned_abs())));
    }
    let event = Event {
        reason: UpdateEvent::UpdateExpired,
        message: "ttl expired and was deleted".to_owned(),
        warning: false,
    };
    Some(finish(
        vec![UpdateEffect::Delete, UpdateEffect::Emit(event)],
        Requeue::Settled,
    ))
}

/// The requeue of an Update that has just ended: at the end of its time to live, or soon if it is
/// being deleted.
pub(super) fn requeue_at_expiry(evaluation: &UpdateEvaluation) -> Requeue {
    if let Some(soon) = finalizer::requeue_while_held(&evaluation.observed.update) {
        return soon;
    }
    let lifetime = evaluation.observed.update.spec.ttl_after_completed.as_ref();
    lifetime.map_or(Requeue::Settled, |lifetime| Requeue::after(lifetime.get()))
}

/// The Workspace becomes the owner of an Update that a user created. A started Update without an
/// owner has lost its Workspace.
pub(super) fn adopt(evaluation: &UpdateEvaluation) -> Option<UpdateStep> {
    let metadata = &evaluation.observed.update.metadata;
    let is_owned = metadata.owner_references.iter().flatten().next().is_some();
    let is_canceled = metadata.deletion_timestamp.is_some() || cancel::is_annotated(evaluation);
    if is_owned || is_canceled || status::run_has_begun(evaluation) {
        return None;
    }
    match workspace(evaluation) {
        Err(request) => Some(request),
        Ok(None) => Some(wait_for_workspace(
            evaluation,
            UpdateReason::WorkspaceNotFound,
        )),
        Ok(Some(workspace)) => {
            let effects = vec![UpdateEffect::Adopt(owner_reference(workspace))];
            Some(finish(effects, Requeue::after(WORKSPACE_RECHECK)))
        }
    }
}

/// A canceled Update that has not started ends at once. A started one is canceled at the agent and
/// ends with its run.
pub(super) fn cancel(evaluation: &UpdateEvaluation) -> Option<UpdateStep> {
    let why = cancel::reason(evaluation).filter(|_| !status::run_has_begun(evaluation))?;
    Some(end_without_result(
        evaluation,
        cancel::status_before_start(evaluation, why),
    ))
}

/// An unknown operation fails by name.
pub(super) fn reject_unknown_operation(evaluation: &UpdateEvaluation) -> Option<UpdateStep> {
    let message = match &evaluation.observed.update.spec.operation {
        Some(OperationType::Other(name)) => {
            format!("spec.type: \"{name}\" is not supported; use preview, up, refresh or destroy")
        }
        None => "spec.type is required: use preview, up, refresh or destroy".to_owned(),
        Some(_) => return None,
    };
    let class = FailureClass::Configuration;
    let status = status::without_result(evaluation, UpdateReason::UpdateFailed, class, &message);
    Some(end_without_result(evaluation, status))
}

/// A run that another operator started depends on that operator's connection: upstream's agent ends
/// it when the connection is gone. No other run may start before that `pulumi` has ended.
pub(super) fn end_foreign_run(evaluation: &UpdateEvaluation) -> Option<UpdateStep> {
    if !status::run_has_begun(evaluation) || status::run_instance(evaluation).is_some() {
        return None;
    }
    let led = evaluation
        .now
        .duration_since(evaluation.observed.leading_since);
    let left = ORPHAN_ENDS_WITHIN.saturating_sub(led);
    if left.is_positive() {
        return Some(finish(Vec::new(), Requeue::after(left.unsigned_abs())));
    }
    let what = "another version of the operator started the operation and was stopped while it ran; \
                completed changes are in the stack's state";
    Some(end_without_result(
        evaluation,
        cancel::status_of_lost_run(evaluation, what),
    ))
}

/// Ends an Update without a result, with an event unless it was canceled.
pub(super) fn end_without_result(
    evaluation: &UpdateEvaluation,
    status: UpdateStatus,
) -> UpdateStep {
    let is_canceled = status.failure_class.as_deref() == Some(FailureClass::Canceled.as_str());
    let event = (!is_canceled).then(|| UpdateEffect::Emit(run::result_event(evaluation, false)));
    let written = status::patch_if_changed(evaluation, status);
    finish(
        written.into_iter().chain(event).collect(),
        requeue_at_expiry(evaluation),
    )
}

pub(super) fn workspace(evaluation: &UpdateEvaluation) -> Result<&Option<Workspace>, UpdateStep> {
    let name = || {
        let name = evaluation.observed.update.spec.workspace_name.clone();
        UpdateRead::Workspace(name.unwrap_or_default())
    };
    evaluation.observed.workspace.or_read(name)
}

pub(super) fn await_workspace(evaluation: &UpdateEvaluation) -> Option<UpdateStep> {
    let workspace = match workspace(evaluation) {
        Ok(workspace) => workspace,
        Err(request) => return Some(request),
    };
    let reason = match workspace {
        // A new Workspace of this name is another one: the run was lost with the old one.
        None if status::run_has_begun(evaluation) => {
            let what = "the Workspace is gone, and the run with it; completed changes are in the stack's state";
            return Some(end_without_result(
                evaluation,
                cancel::status_of_lost_run(evaluation, what),
            ));
        }
        None => UpdateReason::WorkspaceNotFound,
        // A started run is also found in a workspace that is no longer ready.
        Some(workspace)
            if status::run_has_begun(evaluation) || accepts_run(evaluation, workspace) =>
        {
            return None;
        }
        Some(_) => UpdateReason::WorkspaceNotReady,
    };
    Some(wait_for_workspace(evaluation, reason))
}

/// Whether the run may start: the workspace is ready, and its pod will not be replaced for the next
/// run. A destroy uses the existing pod.
fn accepts_run(evaluation: &UpdateEvaluation, workspace: &Workspace) -> bool {
    let is_destroy = evaluation.observed.update.spec.operation == Some(OperationType::Destroy);
    let conditions = workspace
        .status
        .iter()
        .flat_map(|status| &status.conditions);
    let mut ready = conditions.filter(|condition| condition.type_ == ConditionType::Ready.as_str());
    let is_behind = ready.any(|condition| {
        let is = |reason: WorkspaceReason| condition.reason == reason.as_str();
        is(WorkspaceReason::Idle) || (is(WorkspaceReason::Outdated) && !is_destroy)
    });
    is_ready(workspace) && !is_behind
}

fn wait_for_workspace(evaluation: &UpdateEvaluation, reason: UpdateReason) -> UpdateStep {
    let status = status::waiting(evaluation, reason, "");
    let effects = status::patch_if_changed(evaluation, status);
    finish(effects, Requeue::after(WORKSPACE_RECHECK))
}

/// Waits for the run queue. A started run also joins the queue, so that it is counted.
pub(super) fn request_admission(evaluation: &UpdateEvaluation) -> Option<UpdateStep> {
    let Fact::Known(workspace) = &evaluation.observed.workspace else {
        return None;
    };
    let write = || {
        UpdateWrite::Admit(Box::new(AdmissionRequest {
            request: run_request(&evaluation.observed.update, workspace.as_ref()),
            has_begun: status::run_has_begun(evaluation),
        }))
    };
    match evaluation.observed.admission.or_write(write) {
        Err(request) => Some(request),
        Ok(Admission::Admitted) => None,
        Ok(Admission::Queued(wait)) => {
            let status = status::waiting(evaluation, UpdateReason::Queued, &wait.to_string());
            Some(finish(
                status::patch_if_changed(evaluation, status),
                Requeue::after(queue_recheck(wait.position)),
            ))
        }
    }
}

/// An admission triggers a reconcile; this requeue refreshes the queue position in the status.
fn queue_recheck(position: QueuePosition) -> Duration {
    match position {
        QueuePosition::Next | QueuePosition::Near => QUEUE_RECHECK,
        QueuePosition::Middle | QueuePosition::Far => FAR_QUEUE_RECHECK,
    }
}

/// Connects to the agent before a run starts, and checks whether a started run belongs to its
/// instance. In another instance the run is not started again.
pub(super) fn reach_agent(evaluation: &UpdateEvaluation) -> Option<UpdateStep> {
    let Fact::Known(Some(workspace)) = &evaluation.observed.workspace else {
        return None;
    };
    let write = || UpdateWrite::AcquireAgent(Box::new(workspace.clone()));
    let agent = match evaluation.observed.agent.or_write(write) {
        Ok(agent) => agent,
        Err(request) => return Some(request),
    };
    let started_in = status::run_instance(evaluation);
    let is_another = |started_in: &str| agent.instance().is_some_and(|now| now != started_in);
    if started_in.is_some_and(is_another) {
        let what = "the workspace's pod was replaced while the operation ran; \
                    completed changes are in the stack's state";
        return Some(end_without_result(
            evaluation,
            cancel::status_of_lost_run(evaluation, what),
        ));
    }
    match agent {
        AgentState::Reachable(_) => None,
        AgentState::Gone => {
            let what = "the workspace's pod is gone, and the run with it; \
                        what it had done by then is in the stack's state";
            Some(end_without_result(
                evaluation,
                cancel::status_of_lost_run(evaluation, what),
            ))
        }
        AgentState::Unreachable { message, .. } if started_in.is_some() => {
            Some(wait_for_run(evaluation, message))
        }
        AgentState::Unreachable { message, .. } => Some(wait_for_agent(evaluation, message)),
    }
}

/// The agent does not respond, so the run's progress is unknown.
pub(super) fn wait_for_run(evaluation: &UpdateEvaluation, message: &str) -> UpdateStep {
    end_if_overdue(evaluation, || keep_waiting(evaluation, message))
}

fn keep_waiting(evaluation: &UpdateEvaluation, message: &str) -> UpdateStep {
    let status = status::agent_unreachable(evaluation, message);
    finish(
        status::patch_if_changed(evaluation, status),
        Requeue::after(AGENT_RETRY),
    )
}

/// Leaves the queue, so that another run can start meanwhile.
fn wait_for_agent(evaluation: &UpdateEvaluation, message: &str) -> UpdateStep {
    let is_new = !status::is_waiting_for(evaluation, UpdateReason::TransientFailure);
    let status = status::waiting(evaluation, UpdateReason::TransientFailure, message);
    let mut effects = status::patch_if_changed(evaluation, status);
    effects.push(UpdateEffect::ReleaseAdmission);
    if is_new {
        effects.push(UpdateEffect::EmitWorkspaceWarning(message.to_owned()));
    }
    finish(effects, Requeue::after(AGENT_RETRY))
}
