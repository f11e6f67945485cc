//! Folding a finished Update into the Stack's status.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::{
    Update,
    auto::v1alpha1::{OperationType, UpdateStatus},
    names::{conditions::ConditionType, events::StackEvent},
    pulumi::v1::{CurrentUpdate, LastUpdate, StackStatus, UpdateState},
};

use super::{Absorbed, Case, Event, Question, World, desired, rules::finalize};
use crate::{
    Known,
    condition_set::{is_true, shortened},
};

/// How an Update ended.
struct Ending {
    operation: Option<OperationType>,
    permalink: Option<String>,
    /// Well, or why not.
    result: Result<(), String>,
    /// The Update that holds our finalizer, unless it is gone.
    release: Option<String>,
}

/// The case to decide on. Where an Update was under way and has ended, its result is in the status; where
/// that can't be told yet, this is the question to ask.
pub(super) fn absorb(world: &World, now: Timestamp) -> Result<Case, Question> {
    let case = Case {
        world: world.clone(),
        status: world.stack.status.clone().unwrap_or_default(),
        absorbed: None,
        now,
    };
    let Some(current) = case.status.current_update.clone() else {
        return Ok(case);
    };
    // A Stack that nobody holds any more is not worth a question.
    if world.is_deleting() && !finalize::is_held(world) {
        return Ok(case);
    }
    let name = current.name.clone().unwrap_or_default();
    match &world.current_update {
        Known::Unknown if !name.is_empty() => Err(Question::CurrentUpdate(name)),
        Known::Unknown | Known::Known(None) => Ok(vanished(case, &current)),
        Known::Known(Some(update)) if !is_complete(update) => Ok(case),
        Known::Known(Some(update)) => finished(case, &current, update),
    }
}

/// Whether an Update has ended. Its word is final, whatever happened to the object since.
fn is_complete(update: &Update) -> bool {
    let status = update.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, ConditionType::Complete))
}

fn finished(mut case: Case, current: &CurrentUpdate, update: &Update) -> Result<Case, Question> {
    let ended = update.status.clone().unwrap_or_default();
    let succeeded = !is_true(&ended.conditions, ConditionType::Failed);
    if succeeded {
        take_outputs(&mut case, &ended)?;
        if ended.project_info.is_some() {
            case.status.project_info = ended.project_info;
        }
    }
    let message = ended.message.unwrap_or_default();
    let ending = Ending {
        operation: update.spec.operation.clone(),
        permalink: ended.permalink.filter(|link| !link.is_empty()),
        result: if succeeded { Ok(()) } else { Err(message) },
        release: update.metadata.name.clone(),
    };
    Ok(recorded(case, current, ending))
}

/// The outputs of an Update that has some replace the ones before.
fn take_outputs(case: &mut Case, ended: &UpdateStatus) -> Result<(), Question> {
    let Some(secret) = ended.outputs.clone().filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let Known::Known(outputs) = &case.world.outputs else {
        return Err(Question::Outputs(secret));
    };
    case.status.outputs = Some(outputs.clone());
    Ok(())
}

/// The Update is gone, or a crash came before it was made, and nobody will say how it ended: a failure like
/// any other, so that it is tried again (upstream waits for ever, issue 1292).
fn vanished(case: Case, current: &CurrentUpdate) -> Case {
    let name = current.name.as_deref().unwrap_or_default();
    let same_spec = current.generation == Some(case.world.generation());
    let ending = Ending {
        operation: same_spec.then(|| desired::operation(&case.world)),
        permalink: None,
        result: Err(format!(
            "the Update \"{name}\" does not exist: it was deleted before its result was recorded, or never made"
        )),
        release: None,
    };
    recorded(case, current, ending)
}

fn recorded(mut case: Case, current: &CurrentUpdate, ending: Ending) -> Case {
    case.absorbed = Some(Absorbed {
        release: ending.release.clone(),
        event: event(&ending.result),
    });
    let previous = case.status.last_update.take();
    case.status.last_update = Some(last_update(current, previous.as_ref(), ending, case.now));
    case.status.current_update = None;
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
    ending: Ending,
    now: Timestamp,
) -> LastUpdate {
    let before = previous.and_then(|previous| previous.last_successful_commit.clone());
    let (state, message, successful, failures) = match ending.result {
        Ok(()) => (UpdateState::Succeeded, None, current.commit.clone(), None),
        Err(message) => (
            UpdateState::Failed,
            Some(shortened(&message)).filter(|message| !message.is_empty()),
            before,
            Some(failures(current, previous)),
        ),
    };
    LastUpdate {
        generation: current.generation,
        reconcile_request: current.reconcile_request.clone(),
        name: current.name.clone(),
        operation: ending.operation,
        state: Some(state),
        message,
        last_attempted_commit: current.commit.clone(),
        last_successful_commit: successful,
        permalink: ending.permalink,
        last_resync_time: Some(Time(now)),
        failures,
    }
}

/// How many failures came before this one, for the same spec, request and revision. A new revision starts
/// anew: it may be the fix.
fn failures(current: &CurrentUpdate, previous: Option<&LastUpdate>) -> i64 {
    // Upstream leaves an empty text out.
    let same = |one: &Option<String>, other: &Option<String>| {
        one.as_deref().unwrap_or_default() == other.as_deref().unwrap_or_default()
    };
    previous
        .filter(|previous| previous.generation == current.generation)
        .filter(|previous| same(&previous.reconcile_request, &current.reconcile_request))
        .filter(|previous| same(&previous.last_attempted_commit, &current.commit))
        .map_or(0, |previous| {
            previous.failures.unwrap_or(0).saturating_add(1)
        })
}

/// The status without the Update that could not be made.
pub(super) fn without_current(status: &StackStatus) -> StackStatus {
    StackStatus {
        current_update: None,
        ..status.clone()
    }
}
