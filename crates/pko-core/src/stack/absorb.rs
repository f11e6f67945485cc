//! Folding a finished Update into the Stack's status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    Update,
    names::{conditions::ConditionType, events::StackEvent},
    pulumi::v1::{CurrentUpdate, LastUpdate, StackStatus, UpdateState},
};

use super::{Case, Effect, Event, Question, World};
use crate::{Known, condition_set::is_true};

/// The case to decide on. Where an Update was under way and has ended, its result is in the status; where
/// that can't be told yet, this is the question to ask.
pub(super) fn absorb(world: &World, now: Timestamp) -> Result<Case, Question> {
    let status = world.stack.status.clone().unwrap_or_default();
    let case = Case {
        world: world.clone(),
        status,
        absorbed: Vec::new(),
        now,
    };
    let Some(current) = &case.status.current_update else {
        return Ok(case);
    };
    let name = current.name.clone().unwrap_or_default();
    // A Stack that nobody holds any more is not worth a question.
    if world.is_deleting() && !super::rules::finalize::is_held(world) {
        return Ok(case);
    }
    match &world.current_update {
        Known::Unknown => Err(Question::CurrentUpdate(name)),
        Known::Known(None) => Ok(vanished(case, &name)),
        Known::Known(Some(update)) if !is_complete(update) => Ok(case),
        Known::Known(Some(update)) => finished(case, update),
    }
}

/// Whether an Update has ended. Its word is final, whatever happened to the object since.
pub(super) fn is_complete(update: &Update) -> bool {
    has(update, ConditionType::Complete)
}

fn has(update: &Update, kind: ConditionType) -> bool {
    update
        .status
        .as_ref()
        .is_some_and(|status| is_true(&status.conditions, kind))
}

fn finished(case: Case, update: &Update) -> Result<Case, Question> {
    let succeeded = !has(update, ConditionType::Failed);
    let secret = update
        .status
        .as_ref()
        .and_then(|status| status.outputs.clone())
        .filter(|name| !name.is_empty());
    let outputs = match (succeeded, secret, &case.world.outputs) {
        (true, Some(_), Known::Known(outputs)) => Some(outputs.clone()),
        (true, Some(secret), Known::Unknown) => return Err(Question::Outputs(secret)),
        _ => None,
    };
    let mut case = case;
    if let Some(outputs) = outputs {
        case.status.outputs = Some(outputs);
    }
    let project = update
        .status
        .as_ref()
        .and_then(|status| status.project_info.clone());
    if let (true, Some(project)) = (succeeded, project) {
        case.status.project_info = Some(project);
    }
    let message = update
        .status
        .as_ref()
        .and_then(|status| status.message.clone())
        .unwrap_or_default();
    let result = if succeeded { Ok(()) } else { Err(message) };
    let last = LastUpdate {
        operation: update.spec.operation.clone(),
        permalink: update
            .status
            .as_ref()
            .and_then(|status| status.permalink.clone())
            .filter(|link| !link.is_empty()),
        ..LastUpdate::default()
    };
    let name = update.metadata.name.clone().unwrap_or_default();
    Ok(recorded(
        case,
        last,
        result,
        vec![Effect::ReleaseUpdate(name)],
    ))
}

/// The Update is gone and nobody will say how it ended: a failure like any other, so that it is tried
/// again (upstream waits for ever, issue 1292).
fn vanished(case: Case, name: &str) -> Case {
    let message = format!("the Update \"{name}\" was deleted before its result was recorded");
    recorded(case, LastUpdate::default(), Err(message), Vec::new())
}

fn recorded(
    mut case: Case,
    last: LastUpdate,
    result: Result<(), String>,
    mut effects: Vec<Effect>,
) -> Case {
    let current = case.status.current_update.take().unwrap_or_default();
    let previous = case.status.last_update.take();
    effects.insert(0, Effect::Emit(event(&result)));
    case.status.last_update = Some(last_update(
        &current,
        previous.as_ref(),
        last,
        result,
        case.now,
    ));
    case.absorbed = effects;
    case
}

fn event(result: &Result<(), String>) -> Event {
    match result {
        Ok(()) => Event {
            reason: StackEvent::StackCreated,
            message: "Successfully updated stack".to_owned(),
            warning: false,
        },
        Err(message) => Event {
            reason: StackEvent::StackUpdateFailure,
            message: format!("Failed to update stack: {message}"),
            warning: true,
        },
    }
}

fn last_update(
    current: &CurrentUpdate,
    previous: Option<&LastUpdate>,
    last: LastUpdate,
    result: Result<(), String>,
    now: Timestamp,
) -> LastUpdate {
    let succeeded = result.is_ok();
    let message = result.err().filter(|message| !message.is_empty());
    let successful = if succeeded {
        current.commit.clone()
    } else {
        previous.and_then(|previous| previous.last_successful_commit.clone())
    };
    LastUpdate {
        generation: current.generation,
        reconcile_request: current.reconcile_request.clone(),
        name: current.name.clone(),
        state: Some(if succeeded {
            UpdateState::Succeeded
        } else {
            UpdateState::Failed
        }),
        message,
        last_attempted_commit: current.commit.clone(),
        last_successful_commit: successful,
        last_resync_time: Some(Time(now)),
        failures: (!succeeded).then(|| failures(current, previous)),
        ..last
    }
}

/// How many failures came before this one, for the same spec, request and revision. A new revision starts
/// anew: it may be the fix.
fn failures(current: &CurrentUpdate, previous: Option<&LastUpdate>) -> i64 {
    previous
        .filter(|previous| previous.generation == current.generation)
        .filter(|previous| previous.reconcile_request == current.reconcile_request)
        .filter(|previous| previous.last_attempted_commit == current.commit)
        .map_or(0, |previous| previous.failures.unwrap_or(0) + 1)
}

/// The status without the Update that could not be made.
pub(super) fn without_current(status: &StackStatus) -> StackStatus {
    StackStatus {
        current_update: None,
        ..status.clone()
    }
}
