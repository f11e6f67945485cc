//! One small function for each row of the Workspace's rule table.

use std::time::Duration;

use pko_api::{
    auto::v1alpha1::WorkspaceStatus,
    names::{
        conditions::{ConditionStatus, ConditionType},
        events::WorkspaceEvent,
        reasons::WorkspaceReason,
    },
};

use super::{Agent, AgentError, Case, Effect, Event, Place, Question, Step};
use crate::{
    Known,
    condition_set::{ConditionSet, is_true},
    step::{Requeue, finish},
};

/// For a place that starts, and for an agent that does not answer.
const AGAIN: Duration = Duration::from_secs(1);
/// For a place or packages that failed: that may pass by itself.
const AFTER_FAILURE: Duration = Duration::from_mins(1);
/// A Workspace that is ready is looked at now and then: its place may be gone.
const WHILE_READY: Duration = Duration::from_secs(30);

/// A Workspace that is being deleted ends what it runs.
pub(super) fn deleting(case: &Case) -> Option<Step> {
    let deleting = case.world.workspace.metadata.deletion_timestamp.is_some();
    deleting.then(|| {
        let status = not_ready(
            case,
            WorkspaceReason::Deleting,
            "Workspace is being deleted",
        );
        let mut effects = written(case, status);
        effects.insert(0, Effect::Remove);
        finish(effects, Requeue::Settled)
    })
}

/// A place to run.
pub(super) fn place(case: &Case) -> Option<Step> {
    let place = match case.world.place.or_ask(|| Question::Place) {
        Ok(place) => place,
        Err(question) => return Some(question),
    };
    match place {
        Place::Running { .. } => None,
        Place::Starting(message) => {
            let status = not_ready(case, WorkspaceReason::WaitingForReplicas, message);
            Some(finish(written(case, status), Requeue::after(AGAIN)))
        }
        Place::Failed(message) => {
            let status = not_ready(case, WorkspaceReason::WaitingForReplicas, message);
            Some(finish(written(case, status), Requeue::after(AFTER_FAILURE)))
        }
        Place::Impossible(message) => {
            let status = stalled(case, WorkspaceReason::IncompatibleConfiguration, message);
            Some(finish(written(case, status), Requeue::Settled))
        }
    }
}

/// An agent that answers, and packages that are installed.
pub(super) fn agent(case: &Case) -> Option<Step> {
    let Known::Known(Place::Running { address }) = &case.world.place else {
        return None;
    };
    let ask = || {
        let installing = not_ready(
            case,
            WorkspaceReason::Installing,
            "Installing packages and plugins required by the program",
        );
        let publish = (!is_ready(case)).then(|| Box::new(installing));
        Question::Agent(address.clone(), publish)
    };
    match case.world.agent.or_ask(ask) {
        Err(question) => Some(question),
        Ok(Ok(_)) => None,
        Ok(Err(AgentError::Unreachable(message))) => {
            let status = not_ready(case, WorkspaceReason::ConnectionFailed, message);
            Some(finish(written(case, status), Requeue::after(AGAIN)))
        }
        Ok(Err(AgentError::Installation(message))) => Some(installation_failed(case, message)),
    }
}

fn installation_failed(case: &Case, message: &str) -> Step {
    let status = stalled(case, WorkspaceReason::InstallationFailed, message);
    let mut effects = written(case, status);
    if !effects.is_empty() {
        effects.push(Effect::Emit(Event {
            reason: WorkspaceEvent::InstallationFailure,
            message: message.to_owned(),
            warning: true,
        }));
    }
    finish(effects, Requeue::after(AFTER_FAILURE))
}

/// Ready for Updates.
pub(super) fn ready(case: &Case) -> Option<Step> {
    let (Known::Known(Place::Running { address }), Known::Known(Ok(Agent { pulumi_version }))) =
        (&case.world.place, &case.world.agent)
    else {
        return None;
    };
    let mut status = with_ready(case, ConditionStatus::True, WorkspaceReason::Succeeded, "");
    status.address = Some(address.clone());
    status.pulumi_version = Some(pulumi_version.clone());
    let mut effects = written(case, status);
    if !is_ready(case) {
        let name = case
            .world
            .workspace
            .metadata
            .name
            .as_deref()
            .unwrap_or_default();
        effects.push(Effect::Emit(Event {
            reason: WorkspaceEvent::Initialized,
            message: format!("Initialized workspace \"{name}\""),
            warning: false,
        }));
    }
    Some(finish(effects, Requeue::after(WHILE_READY)))
}

/// Whether the stored status says Ready, about the spec of now.
fn is_ready(case: &Case) -> bool {
    let workspace = &case.world.workspace;
    workspace.status.as_ref().is_some_and(|status| {
        status.observed_generation == workspace.metadata.generation
            && is_true(&status.conditions, ConditionType::Ready)
    })
}

fn with_ready(
    case: &Case,
    ready: ConditionStatus,
    reason: WorkspaceReason,
    message: &str,
) -> WorkspaceStatus {
    let mut status = case.world.workspace.status.clone().unwrap_or_default();
    status.observed_generation = case.world.workspace.metadata.generation;
    let mut conditions = ConditionSet::new(&status.conditions, case.now);
    conditions.set(ConditionType::Ready, ready, reason.as_str(), message);
    conditions.remove(ConditionType::Stalled);
    status.conditions = conditions.into_conditions();
    status
}

fn not_ready(case: &Case, reason: WorkspaceReason, message: &str) -> WorkspaceStatus {
    with_ready(case, ConditionStatus::False, reason, message)
}

fn stalled(case: &Case, reason: WorkspaceReason, message: &str) -> WorkspaceStatus {
    let mut status = not_ready(case, reason, message);
    // From the stored ones, so that a stall that lasts keeps its time.
    let stored = case
        .world
        .workspace
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.conditions);
    let mut conditions = ConditionSet::new(stored, case.now);
    conditions.set(
        ConditionType::Ready,
        ConditionStatus::False,
        reason.as_str(),
        message,
    );
    conditions.set(
        ConditionType::Stalled,
        ConditionStatus::True,
        reason.as_str(),
        message,
    );
    status.conditions = conditions.into_conditions();
    status
}

/// The write of a status, unless it is stored already.
fn written(case: &Case, status: WorkspaceStatus) -> Vec<Effect> {
    let stored = case.world.workspace.status.as_ref();
    (stored != Some(&status))
        .then(|| Effect::PatchStatus(Box::new(status)))
        .into_iter()
        .collect()
}
