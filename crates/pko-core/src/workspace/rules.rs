//! One small function for each row of the Workspace's rule table.

use std::time::Duration;

use pko_api::names::{events::WorkspaceEvent, reasons::WorkspaceReason};

use super::{Agent, AgentError, Case, Effect, Event, Place, Question, Step, status};
use crate::{
    Known,
    step::{Requeue, finish},
};

/// For a place that starts, and for an agent that does not answer.
const AGAIN: Duration = Duration::from_secs(1);
/// For a place or packages that failed: that may pass by itself.
const AFTER_FAILURE: Duration = Duration::from_mins(1);
/// A Workspace that is ready is looked at now and then: its place may be gone.
const WHILE_READY: Duration = Duration::from_secs(30);

/// A Workspace that is being deleted ends what it runs, and then says so.
pub(super) fn deleting(case: &Case) -> Option<Step> {
    case.world.workspace.metadata.deletion_timestamp.as_ref()?;
    let message = "Workspace is being deleted";
    let status = status::not_ready(case, WorkspaceReason::Deleting, message);
    let mut effects = status::written(case, status);
    if !effects.is_empty() {
        effects.insert(0, Effect::Remove);
    }
    Some(finish(effects, Requeue::Settled))
}

/// A place to run.
pub(super) fn place(case: &Case) -> Option<Step> {
    let place = match case.world.place.or_ask(|| Question::Place) {
        Ok(place) => place,
        Err(question) => return Some(question),
    };
    let (status, requeue) = match place {
        Place::Running { .. } => return None,
        Place::Starting(message) => (
            status::not_ready(case, WorkspaceReason::WaitingForReplicas, message),
            Requeue::after(AGAIN),
        ),
        Place::Failed(message) => (
            status::not_ready(case, WorkspaceReason::WaitingForReplicas, message),
            Requeue::after(AFTER_FAILURE),
        ),
        // Not IncompatibleConfiguration: Stacks show that one as a Pulumi CLI that is too old.
        Place::Impossible(message) => (
            status::stalled(case, WorkspaceReason::InitializationFailed, message),
            Requeue::Settled,
        ),
    };
    // Nobody listens there.
    let status = status::without_address(status);
    Some(finish(status::written(case, status), requeue))
}

/// An agent that answers, and packages that are installed.
pub(super) fn agent(case: &Case) -> Option<Step> {
    let Known::Known(Place::Running { address }) = &case.world.place else {
        return None;
    };
    let publish = status::published(case);
    let ask = || Question::Agent(address.clone(), publish.clone().map(Box::new));
    let agent = match case.world.agent.or_ask(ask) {
        Ok(agent) => agent,
        Err(question) => return Some(question),
    };
    let case = &case.after_publishing(publish);
    match agent {
        Ok(_) => None,
        Err(AgentError::Unreachable(message)) => {
            let status = status::not_ready(case, WorkspaceReason::ConnectionFailed, message);
            Some(finish(status::written(case, status), Requeue::after(AGAIN)))
        }
        Err(AgentError::Installation(message)) => Some(installation_failed(case, message)),
    }
}

fn installation_failed(case: &Case, message: &str) -> Step {
    let status = status::stalled(case, WorkspaceReason::InstallationFailed, message);
    let mut effects = status::written(case, status);
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
    let mut status = status::ready(case);
    status.address = Some(address.clone());
    status.pulumi_version = Some(pulumi_version.clone());
    let mut effects = status::written(case, status);
    if !status::is_ready(case) {
        let name = case.world.workspace.metadata.name.as_deref();
        effects.push(Effect::Emit(Event {
            reason: WorkspaceEvent::Initialized,
            message: format!("Initialized workspace \"{}\"", name.unwrap_or_default()),
            warning: false,
        }));
    }
    Some(finish(effects, Requeue::after(WHILE_READY)))
}
