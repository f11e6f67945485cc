//! The rules of the Workspace's table, one function for each row.

use std::time::Duration;

use pko_api::names::{
    events::WorkspaceEvent,
    reasons::WorkspaceReason::{
        ConnectionFailed, Deleting, Idle, IncompatibleConfiguration, InitializationFailed,
        Initializing, InstallationFailed, Installing, Outdated, RollingUpdate, Succeeded,
        WaitingForReplicas,
    },
};

use super::{
    AgentEndpoint, AgentError, RuntimeState, SetupStage, SetupState, WorkspaceEffect,
    WorkspaceEvaluation, WorkspaceRead, WorkspaceStep, WorkspaceWrite, auth_delegation,
    compatibility, status,
};
use crate::{
    Event, Fact,
    condition_set::is_reason,
    step::{Requeue, finish},
};

/// For a pod or process that starts, and for an agent that does not respond.
const STARTUP_RETRY: Duration = Duration::from_secs(1);
/// For a pod that is being replaced, and for an agent that returns errors. Events report the
/// former; the latter needs the user.
const SLOW_RETRY: Duration = Duration::from_secs(30);
/// For a failed pod or process, which may recover.
const FAILURE_RETRY: Duration = Duration::from_mins(1);

/// A deleted Workspace stops its runtime and reports the deletion.
pub(super) fn report_deletion(evaluation: &WorkspaceEvaluation) -> Option<WorkspaceStep> {
    evaluation
        .observed
        .workspace
        .metadata
        .deletion_timestamp
        .as_ref()?;
    let message = "Workspace is being deleted";
    let status = status::not_ready(evaluation, Deleting.as_str(), message);
    let mut effects = status::patch_if_changed(evaluation, status);
    if !effects.is_empty() {
        effects.insert(0, WorkspaceEffect::RemoveRuntime);
    }
    Some(finish(effects, Requeue::Settled))
}

pub(super) fn ensure_runtime(evaluation: &WorkspaceEvaluation) -> Option<WorkspaceStep> {
    let runtime = match evaluation
        .observed
        .runtime
        .or_write(|| WorkspaceWrite::EnsureRuntime)
    {
        Ok(runtime) => runtime,
        Err(request) => return Some(request),
    };
    let waiting = |reason: pko_api::names::reasons::WorkspaceReason, message: &str| {
        status::not_ready(evaluation, reason.as_str(), message)
    };
    let (status, requeue) = match runtime {
        RuntimeState::Running(_) => return None,
        RuntimeState::Migrated => return Some(report_migration(evaluation)),
        RuntimeState::Starting(message) => (
            waiting(WaitingForReplicas, message),
            Requeue::after(STARTUP_RETRY),
        ),
        RuntimeState::Rolling(message) => {
            (waiting(RollingUpdate, message), Requeue::after(SLOW_RETRY))
        }
        RuntimeState::Failed(message) => (
            waiting(WaitingForReplicas, message),
            Requeue::after(FAILURE_RETRY),
        ),
        RuntimeState::Idle => (
            status::ready(evaluation, Idle, "scaled to zero until the next run"),
            Requeue::Settled,
        ),
        // Not IncompatibleConfiguration: Stacks show that one as a Pulumi CLI that is too old.
        RuntimeState::Invalid(message) => (
            status::stalled(evaluation, InitializationFailed.as_str(), message),
            Requeue::Settled,
        ),
    };
    let status = status::without_address(status);
    Some(finish(
        status::patch_if_changed(evaluation, status),
        requeue,
    ))
}

/// Changed immutable fields require a new StatefulSet.
fn report_migration(evaluation: &WorkspaceEvaluation) -> WorkspaceStep {
    let message = "Waiting for the StatefulSet to be re-created";
    let status = status::not_ready(evaluation, RollingUpdate.as_str(), message);
    let event = warning(
        WorkspaceEvent::Migrated,
        "Replaced the workspace statefulset".to_owned(),
    );
    let status = status::without_address(status);
    finish_with_event(evaluation, status, event, Requeue::after(STARTUP_RETRY))
}

pub(super) fn read_version(evaluation: &WorkspaceEvaluation) -> Option<WorkspaceStep> {
    let running = running_agent(evaluation)?;
    let version = match evaluation
        .observed
        .version
        .or_read(|| WorkspaceRead::Version)
    {
        Ok(version) => version,
        Err(request) => return Some(request),
    };
    let (reason, message, retry) = match version {
        Ok(_) => return None,
        Err(AgentError::Unreachable(message)) => {
            (ConnectionFailed.as_str(), message.clone(), STARTUP_RETRY)
        }
        Err(AgentError::Refused { reason, message }) => {
            let valid = is_reason(reason).then_some(reason.as_str());
            let message = auth_delegation::explain(&evaluation.observed.workspace, message);
            // A pod of another operator version that rejects us is replaced.
            let retry = if running.is_outdated {
                STARTUP_RETRY
            } else {
                SLOW_RETRY
            };
            (valid.unwrap_or(ConnectionFailed.as_str()), message, retry)
        }
    };
    let status = status::with_address(running, status::not_ready(evaluation, reason, &message));
    let event = warning(WorkspaceEvent::ConnectionFailure, message);
    Some(finish_with_event(
        evaluation,
        status,
        event,
        Requeue::after(retry),
    ))
}

/// The CLI must support the config. Only another CLI or another config helps.
pub(super) fn check_compatibility(evaluation: &WorkspaceEvaluation) -> Option<WorkspaceStep> {
    let running = running_agent(evaluation)?;
    let Fact::Known(Ok(version)) = &evaluation.observed.version else {
        return None;
    };
    let problem = compatibility::problem(&evaluation.observed.workspace.spec, version)?;
    let reason = IncompatibleConfiguration.as_str();
    let status = status::with_address(running, status::stalled(evaluation, reason, &problem));
    let event = warning(WorkspaceEvent::StackInitializationFailure, problem);
    Some(finish_with_event(
        evaluation,
        status,
        event,
        Requeue::Settled,
    ))
}

pub(super) fn set_up(evaluation: &WorkspaceEvaluation) -> Option<WorkspaceStep> {
    let running = running_agent(evaluation)?;
    let setup = match evaluation.observed.setup.or_write(|| WorkspaceWrite::SetUp) {
        Ok(setup) => setup,
        Err(request) => return Some(request),
    };
    match setup {
        SetupState::Done => None,
        SetupState::InProgress(stage) => Some(report_setup(evaluation, running, *stage)),
        SetupState::Failed {
            stage,
            message,
            is_transient,
            retry_in,
        } => {
            let (reason, event) = match stage {
                SetupStage::Installing => (InstallationFailed, WorkspaceEvent::InstallationFailure),
                SetupStage::Initializing => (
                    InitializationFailed,
                    WorkspaceEvent::StackInitializationFailure,
                ),
            };
            let status = if *is_transient {
                status::not_ready(evaluation, reason.as_str(), message)
            } else {
                status::stalled(evaluation, reason.as_str(), message)
            };
            let event = warning(event, message.clone());
            let requeue = Requeue::after(*retry_in);
            Some(finish_with_event(
                evaluation,
                status::with_address(running, status),
                event,
                requeue,
            ))
        }
    }
}

/// A failure stays in the status until the setup succeeds, so that retries do not make it flap.
fn report_setup(
    evaluation: &WorkspaceEvaluation,
    running: &AgentEndpoint,
    stage: SetupStage,
) -> WorkspaceStep {
    let (reason, message) = match stage {
        SetupStage::Installing => (
            Installing,
            "Installing packages and plugins required by the program",
        ),
        SetupStage::Initializing => (Initializing, "Initializing and selecting a Pulumi stack"),
    };
    let failed = [InstallationFailed, InitializationFailed];
    let effects = if status::has_current_reason(evaluation, &failed) {
        Vec::new()
    } else {
        let status = status::not_ready(evaluation, reason.as_str(), message);
        status::patch_if_changed(evaluation, status::with_address(running, status))
    };
    finish(effects, Requeue::after(FAILURE_RETRY))
}

pub(super) fn report_ready(evaluation: &WorkspaceEvaluation) -> Option<WorkspaceStep> {
    let running = running_agent(evaluation)?;
    let Fact::Known(Ok(version)) = &evaluation.observed.version else {
        return None;
    };
    let (reason, message) = if running.is_outdated {
        let message = "created by another version of the operator; the next run gets a new pod";
        (Outdated, message)
    } else {
        (Succeeded, "")
    };
    let mut status = status::with_address(running, status::ready(evaluation, reason, message));
    status.pulumi_version = Some(version.clone());
    let mut effects = status::patch_if_changed(evaluation, status);
    if !status::was_ready(evaluation) {
        effects.push(WorkspaceEffect::Emit(Event {
            reason: WorkspaceEvent::Initialized,
            message: format!("Initialized workspace {}", running.name),
            warning: false,
        }));
    }
    Some(finish(effects, Requeue::after(running.requeue_after)))
}

fn running_agent(evaluation: &WorkspaceEvaluation) -> Option<&AgentEndpoint> {
    match &evaluation.observed.runtime {
        Fact::Known(RuntimeState::Running(running)) => Some(running),
        _ => None,
    }
}

fn warning(reason: WorkspaceEvent, message: String) -> Event<WorkspaceEvent> {
    Event {
        reason,
        message,
        warning: true,
    }
}

/// Emits the event only if the status has changed.
fn finish_with_event(
    evaluation: &WorkspaceEvaluation,
    status: pko_api::auto::v1alpha1::WorkspaceStatus,
    event: Event<WorkspaceEvent>,
    requeue: Requeue,
) -> WorkspaceStep {
    let mut effects = status::patch_if_changed(evaluation, status);
    if !effects.is_empty() {
        effects.push(WorkspaceEffect::Emit(event));
    }
    finish(effects, requeue)
}
