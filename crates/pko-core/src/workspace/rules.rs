//! One small function for each row of the Workspace's rule table.

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
    AgentError, Case, Effect, Event, Place, Preparation, Question, Running, Stage, Step,
    compatibility, delegation, status,
};
use crate::{
    Known,
    condition_set::is_reason,
    step::{Requeue, finish},
};

/// For a place that starts, and for an agent that does not answer.
const AGAIN: Duration = Duration::from_secs(1);
/// For a place that is replaced, or an agent that refuses: their changes are seen, or somebody has to act.
const SLOWLY: Duration = Duration::from_secs(30);
/// For a place that failed: that may pass by itself.
const AFTER_FAILURE: Duration = Duration::from_mins(1);

/// A Workspace that is being deleted ends what it runs, and then says so.
pub(super) fn deleting(case: &Case) -> Option<Step> {
    case.world.workspace.metadata.deletion_timestamp.as_ref()?;
    let message = "Workspace is being deleted";
    let status = status::not_ready(case, Deleting.as_str(), message);
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
    let waiting = |reason: pko_api::names::reasons::WorkspaceReason, message: &str| {
        status::not_ready(case, reason.as_str(), message)
    };
    let (status, requeue) = match place {
        Place::Running(_) => return None,
        Place::Migrated => return Some(migrated(case)),
        Place::Starting(message) => (waiting(WaitingForReplicas, message), Requeue::after(AGAIN)),
        Place::Rolling(message) => (waiting(RollingUpdate, message), Requeue::after(SLOWLY)),
        Place::Failed(message) => (
            waiting(WaitingForReplicas, message),
            Requeue::after(AFTER_FAILURE),
        ),
        Place::Asleep => (
            status::ready(case, Idle, "without a pod until the next run needs one"),
            Requeue::Settled,
        ),
        // Not IncompatibleConfiguration: Stacks show that one as a Pulumi CLI that is too old.
        Place::Impossible(message) => (
            status::stalled(case, InitializationFailed.as_str(), message),
            Requeue::Settled,
        ),
    };
    // Nobody listens there.
    let status = status::without_address(status);
    Some(finish(status::written(case, status), requeue))
}

/// Fields that can't be changed are a reason to make the StatefulSet anew.
fn migrated(case: &Case) -> Step {
    let message = "Waiting for the statefulset to be made anew";
    let status = status::not_ready(case, RollingUpdate.as_str(), message);
    let event = warning(
        WorkspaceEvent::Migrated,
        "Replaced the workspace statefulset".to_owned(),
    );
    let status = status::without_address(status);
    told(case, status, event, Requeue::after(AGAIN))
}

/// An agent that answers.
pub(super) fn version(case: &Case) -> Option<Step> {
    let running = running(case)?;
    let version = match case.world.version.or_ask(|| Question::Version) {
        Ok(version) => version,
        Err(question) => return Some(question),
    };
    let (reason, message, again) = match version {
        Ok(_) => return None,
        Err(AgentError::Unreachable(message)) => {
            (ConnectionFailed.as_str(), message.clone(), AGAIN)
        }
        Err(AgentError::Refused { reason, message }) => {
            let known = is_reason(reason).then_some(reason.as_str());
            let message = delegation::explained(&case.world.workspace, message);
            // A pod of another operator version that refuses us is replaced.
            let again = if running.is_outdated { AGAIN } else { SLOWLY };
            (known.unwrap_or(ConnectionFailed.as_str()), message, again)
        }
    };
    let status = status::at(running, status::not_ready(case, reason, &message));
    let event = warning(WorkspaceEvent::ConnectionFailure, message);
    Some(told(case, status, event, Requeue::after(again)))
}

/// A CLI that understands the config. Only another one, or another config, helps.
pub(super) fn compatible(case: &Case) -> Option<Step> {
    let running = running(case)?;
    let Known::Known(Ok(version)) = &case.world.version else {
        return None;
    };
    let problem = compatibility::problem(&case.world.workspace.spec, version)?;
    let reason = IncompatibleConfiguration.as_str();
    let status = status::at(running, status::stalled(case, reason, &problem));
    let event = warning(WorkspaceEvent::StackInitializationFailure, problem);
    Some(told(case, status, event, Requeue::Settled))
}

/// Packages that are installed, and stacks that are selected.
pub(super) fn preparation(case: &Case) -> Option<Step> {
    let running = running(case)?;
    let preparation = match case.world.preparation.or_ask(|| Question::Preparation) {
        Ok(preparation) => preparation,
        Err(question) => return Some(question),
    };
    match preparation {
        Preparation::Done => None,
        Preparation::UnderWay(stage) => Some(under_way(case, running, *stage)),
        Preparation::Failed {
            stage,
            message,
            is_transient,
            retry_in,
        } => {
            let (reason, event) = match stage {
                Stage::Installing => (InstallationFailed, WorkspaceEvent::InstallationFailure),
                Stage::Initializing => (
                    InitializationFailed,
                    WorkspaceEvent::StackInitializationFailure,
                ),
            };
            let status = if *is_transient {
                status::not_ready(case, reason.as_str(), message)
            } else {
                status::stalled(case, reason.as_str(), message)
            };
            let event = warning(event, message.clone());
            let requeue = Requeue::after(*retry_in);
            Some(told(case, status::at(running, status), event, requeue))
        }
    }
}

/// A status that says what went wrong the last time stays until that is known to be over: a try now and then does not
/// make it come and go.
fn under_way(case: &Case, running: &Running, stage: Stage) -> Step {
    let (reason, message) = match stage {
        Stage::Installing => (
            Installing,
            "Installing packages and plugins required by the program",
        ),
        Stage::Initializing => (Initializing, "Initializing and selecting a Pulumi stack"),
    };
    let failed = [InstallationFailed, InitializationFailed];
    let effects = if status::is_about_now(case, &failed) {
        Vec::new()
    } else {
        let status = status::not_ready(case, reason.as_str(), message);
        status::written(case, status::at(running, status))
    };
    finish(effects, Requeue::after(AFTER_FAILURE))
}

/// Ready for Updates.
pub(super) fn ready(case: &Case) -> Option<Step> {
    let running = running(case)?;
    let Known::Known(Ok(version)) = &case.world.version else {
        return None;
    };
    let (reason, message) = if running.is_outdated {
        let message = "made by another version of the operator: the next run gets a new pod";
        (Outdated, message)
    } else {
        (Succeeded, "")
    };
    let mut status = status::at(running, status::ready(case, reason, message));
    status.pulumi_version = Some(version.clone());
    let mut effects = status::written(case, status);
    if !status::was_ready(case) {
        effects.push(Effect::Emit(Event {
            reason: WorkspaceEvent::Initialized,
            message: format!("Initialized workspace {}", running.name),
            warning: false,
        }));
    }
    Some(finish(effects, Requeue::after(running.look_again)))
}

fn running(case: &Case) -> Option<&Running> {
    match &case.world.place {
        Known::Known(Place::Running(running)) => Some(running),
        _ => None,
    }
}

fn warning(reason: WorkspaceEvent, message: String) -> Event {
    Event {
        reason,
        message,
        warning: true,
    }
}

/// A status and an event about the same; where the first is not new, the second is not, either.
fn told(
    case: &Case,
    status: pko_api::auto::v1alpha1::WorkspaceStatus,
    event: Event,
    requeue: Requeue,
) -> Step {
    let mut effects = status::written(case, status);
    if !effects.is_empty() {
        effects.push(Effect::Emit(event));
    }
    finish(effects, requeue)
}
