//! One small function for each row of the Update's rule table.

use std::time::Duration;

use jiff::SignedDuration;
use pko_api::{
    Workspace,
    auto::v1alpha1::OperationType,
    names::{conditions::ConditionType, events::UpdateEvent, reasons::UpdateReason},
};

use super::{
    Case, Effect, Event, Question, Run, RunError, RunOutcome, Step, TurnQuestion, outputs_secret,
    status, turn_request,
};
use crate::{
    Known,
    condition_set::{find, is_true},
    queue::Turn,
    stack,
    step::{Requeue, finish},
    workspace::owner_reference,
};

/// For an event of the Workspace that was missed.
const WORKSPACE_AGAIN: Duration = Duration::from_secs(30);
/// For a turn: whoever gets one is woken, so that this is for the position that users read.
const TURN_AGAIN: Duration = Duration::from_secs(30);
/// For an agent that did not answer.
const AGENT_AGAIN: Duration = Duration::from_secs(5);
/// For the end of a run that was missed.
const RUN_AGAIN: Duration = Duration::from_mins(1);

/// An Update that is over stays for its time to live.
pub(super) fn expire(case: &Case) -> Option<Step> {
    let update = &case.world.update;
    let conditions = &update.status.as_ref()?.conditions;
    let complete = find(conditions, ConditionType::Complete)
        .filter(|_| is_true(conditions, ConditionType::Complete))?;
    let deleting = update.metadata.deletion_timestamp.is_some();
    let lifetime = update.spec.ttl_after_completed.as_ref();
    let Some(lifetime) = lifetime.filter(|_| !deleting) else {
        return Some(finish(Vec::new(), Requeue::Settled));
    };
    let age = case.now.duration_since(complete.last_transition_time.0);
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
        vec![Effect::Delete, Effect::Emit(event)],
        Requeue::Settled,
    ))
}

/// When to look at an Update that has just ended: at the end of its time to live.
fn at_expiry(case: &Case) -> Requeue {
    let lifetime = case.world.update.spec.ttl_after_completed.as_ref();
    lifetime.map_or(Requeue::Settled, |lifetime| Requeue::after(lifetime.get()))
}

/// An Update that somebody wrote by hand belongs to its Workspace as soon as there is one. One that has begun
/// without an owner has lost it.
pub(super) fn adopt(case: &Case) -> Option<Step> {
    let metadata = &case.world.update.metadata;
    let is_owned = metadata.owner_references.iter().flatten().next().is_some();
    if is_owned || metadata.deletion_timestamp.is_some() || status::is_progressing(case) {
        return None;
    }
    match workspace(case) {
        Err(question) => Some(question),
        Ok(None) => Some(waiting_for_workspace(case, UpdateReason::WorkspaceNotFound)),
        Ok(Some(workspace)) => {
            let effects = vec![Effect::Adopt(owner_reference(workspace))];
            Some(finish(effects, Requeue::after(WORKSPACE_AGAIN)))
        }
    }
}

/// An Update that is being deleted, or whose Workspace is gone for good, ends; its run, too.
pub(super) fn cancel(case: &Case) -> Option<Step> {
    let metadata = &case.world.update.metadata;
    let mut owners = metadata.owner_references.iter().flatten();
    let owned = owners.any(|owner| owner.controller == Some(true));
    if owned && metadata.deletion_timestamp.is_none() {
        return None;
    }
    let mut effects = Vec::new();
    // Once an Update has a status a run may have begun, whatever became of the connection since.
    if case.world.update.status.is_some() {
        // It says which agent to tell.
        if let Err(question) = workspace(case) {
            return Some(question);
        }
        effects.push(Effect::CancelRun);
    }
    let message = "the Update was deleted, or its Workspace was";
    let status = status::aborted(case, UpdateReason::Canceled, message);
    effects.push(Effect::PatchStatus(Box::new(status)));
    Some(finish(effects, at_expiry(case)))
}

/// An operation that there is not fails by name.
pub(super) fn unknown_operation(case: &Case) -> Option<Step> {
    let message = match &case.world.update.spec.operation {
        Some(OperationType::Other(name)) => {
            format!("spec.type: \"{name}\" is none of preview, up, refresh and destroy")
        }
        None => "spec.type is missing: one of preview, up, refresh and destroy".to_owned(),
        Some(_) => return None,
    };
    let status = status::aborted(case, UpdateReason::UpdateFailed, &message);
    Some(finish(status::written(case, status), at_expiry(case)))
}

fn workspace(case: &Case) -> Result<&Option<Workspace>, Step> {
    let name = || {
        let name = case.world.update.spec.workspace_name.clone();
        Question::Workspace(name.unwrap_or_default())
    };
    case.world.workspace.or_ask(name)
}

/// Waits for the Workspace.
pub(super) fn await_workspace(case: &Case) -> Option<Step> {
    let workspace = match workspace(case) {
        Ok(workspace) => workspace,
        Err(question) => return Some(question),
    };
    let reason = match workspace {
        // Whoever makes it anew makes another: the run and its result went with the one before.
        None if status::is_progressing(case) => {
            let message = "the Workspace is gone, and the run with it";
            let status = status::aborted(case, UpdateReason::Aborted, message);
            return Some(finish(status::written(case, status), at_expiry(case)));
        }
        None => UpdateReason::WorkspaceNotFound,
        // A run that has begun is found in a workspace that is not ready any more, too.
        Some(workspace) if stack::is_ready(workspace) || status::is_progressing(case) => {
            return None;
        }
        Some(_) => UpdateReason::WorkspaceNotReady,
    };
    Some(waiting_for_workspace(case, reason))
}

fn waiting_for_workspace(case: &Case, reason: UpdateReason) -> Step {
    let status = status::waiting(case, reason, "");
    let effects = status::written(case, status);
    finish(effects, Requeue::after(WORKSPACE_AGAIN))
}

/// Waits for its turn. A run that has begun is asked for too: it counts, whoever started it.
pub(super) fn turn(case: &Case) -> Option<Step> {
    let Known::Known(workspace) = &case.world.workspace else {
        return None;
    };
    let ask = || {
        Question::Turn(Box::new(TurnQuestion {
            request: turn_request(&case.world.update, workspace.as_ref()),
            has_begun: status::is_progressing(case),
        }))
    };
    match case.world.turn.or_ask(ask) {
        Err(question) => Some(question),
        Ok(Turn::Go) => None,
        Ok(Turn::Wait(wait)) => {
            let status = status::waiting(case, UpdateReason::Queued, &wait.to_string());
            Some(finish(
                status::written(case, status),
                Requeue::after(TURN_AGAIN),
            ))
        }
    }
}

/// Starts the run, or finds it, and records its result.
pub(super) fn run(case: &Case) -> Option<Step> {
    let Known::Known(Some(workspace)) = &case.world.workspace else {
        return None;
    };
    let publish = status::published(case);
    let ask = || Question::Run(Box::new(workspace.clone()), publish.clone().map(Box::new));
    let run = match case.world.run.or_ask(ask) {
        Ok(run) => run,
        Err(question) => return Some(question),
    };
    let case = &case.after_publishing(publish);
    Some(match run {
        Ok(Run::Running) => {
            let mut effects = status::written(case, status::progressing(case));
            effects.push(Effect::FollowRun);
            finish(effects, Requeue::after(RUN_AGAIN))
        }
        Ok(Run::Ended(outcome)) => finish(recorded(case, outcome), at_expiry(case)),
        Err(RunError::Unreachable(_)) if !stack::is_ready(workspace) => {
            waiting_for_workspace(case, UpdateReason::WorkspaceNotReady)
        }
        Err(RunError::Unreachable(message)) => {
            let status = status::waiting(case, UpdateReason::TransientFailure, message);
            finish(status::written(case, status), Requeue::after(AGENT_AGAIN))
        }
        Err(RunError::Refused(message)) => {
            let outcome = RunOutcome {
                message: message.clone(),
                ..RunOutcome::default()
            };
            finish(recorded(case, &outcome), at_expiry(case))
        }
    })
}

/// The outputs first: a result that is recorded never lacks them, and they can be written twice.
fn recorded(case: &Case, outcome: &RunOutcome) -> Vec<Effect> {
    let secret = outputs_secret(&case.world.update, outcome);
    let mut status = status::ended(case, outcome);
    status.outputs = secret
        .as_ref()
        .and_then(|secret| secret.metadata.name.clone());
    if let Some(problem) = outcome.outputs_problem() {
        status.message = Some(problem);
    }
    let outputs = secret.map(|secret| Effect::CreateOutputs(Box::new(secret)));
    let rest = [
        Effect::PatchStatus(Box::new(status)),
        Effect::AcknowledgeRun,
        Effect::Emit(event(case, outcome)),
    ];
    outputs.into_iter().chain(rest).collect()
}

fn event(case: &Case, outcome: &RunOutcome) -> Event {
    let spec = &case.world.update.spec;
    let stack = spec.stack_name.as_deref().unwrap_or_default();
    let (done, failed) = match &spec.operation {
        Some(OperationType::Preview) => ("Previewed", "preview"),
        Some(OperationType::Refresh) => ("Refreshed", "refresh"),
        Some(OperationType::Destroy) => ("Destroyed", "destroy"),
        _ => ("Updated", "update"),
    };
    if outcome.succeeded {
        Event {
            reason: UpdateEvent::UpdateSucceeded,
            message: format!("{done} stack \"{stack}\""),
            warning: false,
        }
    } else {
        Event {
            reason: UpdateEvent::UpdateFailed,
            message: format!("Failed to {failed} stack \"{stack}\""),
            warning: true,
        }
    }
}
