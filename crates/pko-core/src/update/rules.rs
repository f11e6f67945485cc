//! One small function for each row of the Update's rule table.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    auto::v1alpha1::{OperationType, UpdateStatus},
    names::{
        conditions::{ConditionStatus, ConditionType},
        events::UpdateEvent,
        reasons::UpdateReason,
    },
};

use super::{Case, Effect, Event, Question, Run, RunError, RunOutcome, Step, outputs_secret};
use crate::{
    condition_set::{ConditionSet, find, is_true},
    stack,
    step::{Requeue, finish},
};

/// For an event of the Workspace that was missed.
const WORKSPACE_AGAIN: Duration = Duration::from_secs(30);
/// For an agent that did not answer.
const AGENT_AGAIN: Duration = Duration::from_secs(5);
/// For the end of a run that was missed.
const RUN_AGAIN: Duration = Duration::from_mins(1);

/// An Update that is over stays for its time to live.
pub(super) fn expire(case: &Case) -> Option<Step> {
    let status = case.world.update.status.as_ref()?;
    let complete = find(&status.conditions, ConditionType::Complete)
        .filter(|_| is_true(&status.conditions, ConditionType::Complete))?;
    let deleting = case.world.update.metadata.deletion_timestamp.is_some();
    let Some(lifetime) = case
        .world
        .update
        .spec
        .ttl_after_completed
        .as_ref()
        .filter(|_| !deleting)
    else {
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
        vec![Effect::Emit(event), Effect::Delete],
        Requeue::Settled,
    ))
}

/// An Update that is being deleted, or whose Workspace is gone for good, ends; its run, too.
pub(super) fn cancel(case: &Case) -> Option<Step> {
    let metadata = &case.world.update.metadata;
    let owned = metadata
        .owner_references
        .iter()
        .flatten()
        .any(|owner| owner.controller == Some(true));
    let canceled = metadata.deletion_timestamp.is_some() || !owned;
    canceled.then(|| {
        let status = aborted(
            case,
            UpdateReason::Canceled,
            "the Update was deleted, or its Workspace was",
        );
        let mut effects = Vec::new();
        if is_progressing(case) {
            effects.push(Effect::CancelRun);
        }
        effects.extend(written(case, status));
        finish(effects, Requeue::Settled)
    })
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
    let status = aborted(case, UpdateReason::UpdateFailed, &message);
    Some(finish(written(case, status), Requeue::Settled))
}

/// Waits for the Workspace.
pub(super) fn await_workspace(case: &Case) -> Option<Step> {
    let name = case
        .world
        .update
        .spec
        .workspace_name
        .clone()
        .unwrap_or_default();
    let workspace = match case.world.workspace.or_ask(|| Question::Workspace(name)) {
        Ok(workspace) => workspace,
        Err(question) => return Some(question),
    };
    let reason = match workspace {
        None => UpdateReason::WorkspaceNotFound,
        // A run that has begun is found in a workspace that is not ready any more, too.
        Some(workspace) if stack::is_ready(workspace) || is_progressing(case) => return None,
        Some(_) => UpdateReason::WorkspaceNotReady,
    };
    let status = progress(case, ConditionStatus::False, reason, "");
    Some(finish(
        written(case, status),
        Requeue::after(WORKSPACE_AGAIN),
    ))
}

/// Starts the run, or finds it, and records its result.
pub(super) fn run(case: &Case) -> Option<Step> {
    let crate::Known::Known(Some(workspace)) = &case.world.workspace else {
        return None;
    };
    let progressing = progress(case, ConditionStatus::True, UpdateReason::Progressing, "");
    let publish =
        (case.world.update.status.as_ref() != Some(&progressing)).then(|| Box::new(progressing));
    let ask = || Question::Run(Box::new(workspace.clone()), publish);
    Some(match case.world.run.or_ask(ask) {
        Err(question) => question,
        Ok(Ok(Run::Running)) => finish(vec![Effect::FollowRun], Requeue::after(RUN_AGAIN)),
        Ok(Ok(Run::Ended(outcome))) => finish(recorded(case, outcome), Requeue::after(AGENT_AGAIN)),
        Ok(Err(RunError::Unreachable(message))) => {
            let status = progress(
                case,
                ConditionStatus::False,
                UpdateReason::TransientFailure,
                message,
            );
            finish(written(case, status), Requeue::after(AGENT_AGAIN))
        }
        Ok(Err(RunError::Refused(message))) => {
            let outcome = RunOutcome {
                message: message.clone(),
                ..RunOutcome::default()
            };
            finish(recorded(case, &outcome), Requeue::after(AGENT_AGAIN))
        }
    })
}

/// The outputs first: a result that is recorded never lacks them, and they can be written twice.
fn recorded(case: &Case, outcome: &RunOutcome) -> Vec<Effect> {
    let secret = outputs_secret(&case.world.update, outcome);
    let mut status = ended(case, outcome);
    status.outputs = secret
        .as_ref()
        .and_then(|secret| secret.metadata.name.clone());
    let outputs = secret.map(|secret| Effect::CreateOutputs(Box::new(secret)));
    let mut effects: Vec<Effect> = outputs.into_iter().collect();
    effects.push(Effect::PatchStatus(Box::new(status)));
    effects.push(Effect::Emit(event(case, outcome)));
    effects.push(Effect::AcknowledgeRun);
    effects
}

fn ended(case: &Case, outcome: &RunOutcome) -> UpdateStatus {
    use ConditionStatus::{False, True};
    use ConditionType::{Complete, Failed, Progressing};

    let (failed, reason) = match (outcome.succeeded, &outcome.reason) {
        (true, _) => (False, UpdateReason::UpdateSucceeded.as_str()),
        (false, Some(reason)) => (True, reason.as_str()),
        (false, None) => (True, UpdateReason::UpdateFailed.as_str()),
    };
    let mut status = status_of(case);
    let mut conditions = ConditionSet::new(&status.conditions, case.now);
    conditions.set(Progressing, False, UpdateReason::Complete.as_str(), "");
    conditions.set(Failed, failed, reason, "");
    conditions.set(Complete, True, UpdateReason::Updated.as_str(), "");
    status.conditions = conditions.into_conditions();
    status.message = Some(outcome.message.clone());
    status.start_time = outcome.start.map(Time);
    status.end_time = outcome.end.map(Time);
    status.permalink.clone_from(&outcome.permalink);
    status.project_info.clone_from(&outcome.project);
    status
}

fn event(case: &Case, outcome: &RunOutcome) -> Event {
    let stack = case
        .world
        .update
        .spec
        .stack_name
        .as_deref()
        .unwrap_or_default();
    let (done, failed) = match &case.world.update.spec.operation {
        Some(OperationType::Preview) => ("Previewed", "preview"),
        Some(OperationType::Refresh) => ("Refreshed", "refresh"),
        Some(OperationType::Destroy) => ("Destroyed", "destroy"),
        _ => ("Updated", "update"),
    };
    if outcome.succeeded {
        let message = format!("{done} stack \"{stack}\"");
        Event {
            reason: UpdateEvent::UpdateSucceeded,
            message,
            warning: false,
        }
    } else {
        let message = format!("Failed to {failed} stack \"{stack}\"");
        Event {
            reason: UpdateEvent::UpdateFailed,
            message,
            warning: true,
        }
    }
}

fn is_progressing(case: &Case) -> bool {
    let status = case.world.update.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, ConditionType::Progressing))
}

fn status_of(case: &Case) -> UpdateStatus {
    let mut status = case.world.update.status.clone().unwrap_or_default();
    status.observed_generation = case.world.update.metadata.generation;
    status
}

/// The status of an Update that is not over.
fn progress(
    case: &Case,
    progressing: ConditionStatus,
    reason: UpdateReason,
    message: &str,
) -> UpdateStatus {
    use ConditionType::{Complete, Failed, Progressing};

    let mut status = status_of(case);
    let mut conditions = ConditionSet::new(&status.conditions, case.now);
    conditions.set(Progressing, progressing, reason.as_str(), message);
    conditions.set(
        Failed,
        ConditionStatus::False,
        UpdateReason::Progressing.as_str(),
        "",
    );
    conditions.set(
        Complete,
        ConditionStatus::False,
        UpdateReason::Progressing.as_str(),
        "",
    );
    status.conditions = conditions.into_conditions();
    status
}

/// The status of an Update that ends without a result.
fn aborted(case: &Case, reason: UpdateReason, message: &str) -> UpdateStatus {
    use ConditionStatus::{False, True};
    use ConditionType::{Complete, Failed, Progressing};

    let mut status = status_of(case);
    let mut conditions = ConditionSet::new(&status.conditions, case.now);
    conditions.set(Progressing, False, UpdateReason::Failed.as_str(), "");
    conditions.set(Failed, True, reason.as_str(), "");
    conditions.set(Complete, True, UpdateReason::Failed.as_str(), "");
    status.conditions = conditions.into_conditions();
    status.message = Some(message.to_owned());
    status
}

/// The write of a status, unless it is stored already.
fn written(case: &Case, status: UpdateStatus) -> Vec<Effect> {
    let stored = case.world.update.status.as_ref();
    (stored != Some(&status))
        .then(|| Effect::PatchStatus(Box::new(status)))
        .into_iter()
        .collect()
}
