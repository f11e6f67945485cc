//! Where the program comes from, and which revision it is at.

use std::time::Duration;

use jiff::SignedDuration;
use pko_api::{Workspace, names::reasons::StackReason};

use super::kept_workspace::{self, NO_WORKSPACE};
use crate::{
    Class,
    condition_set::Summary,
    stack::{Case, Location, NoSource, Question, Source, Step, Wanted},
    step::{Requeue, finish},
};

/// For a source that is not there, or can't be read: its own event ends the wait, if one comes.
const MISSING_AGAIN: Duration = Duration::from_secs(30);
/// For a source that is on its way.
const PENDING_AGAIN: Duration = Duration::from_secs(5);
/// For so long a Stack that was up to date stays so while nobody answers.
const STALE_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Finds out the source's revision, or reports why there is none.
pub(in crate::stack) fn resolve(case: &Case) -> Option<Step> {
    of(case).err()
}

/// The source of a case that has passed [`resolve`].
pub(super) fn known(case: &Case) -> Option<Source> {
    of(case).ok()
}

/// The source, or what to do without it: ask, or report.
pub(super) fn of(case: &Case) -> Result<Source, Step> {
    if let Some(workspace) = kept_workspace::find_running(case)? {
        return of_kept(case, workspace);
    }
    if let Some(source) = without_program(case) {
        return Ok(source);
    }
    looked_up(case)?.map_err(|problem| missing(case, problem))
}

/// The source that the spec names, as it is now.
fn looked_up(case: &Case) -> Result<Result<Source, NoSource>, Step> {
    let wanted = Wanted::of(&case.world.stack).map_err(|problem| case.refused(problem))?;
    let Some(wanted) = wanted else {
        return Ok(Ok(Source {
            revision: String::new(),
            location: Location::Given,
        }));
    };
    let source = case.world.source.or_ask(|| Question::Source(wanted))?;
    Ok(source.clone())
}

/// The source that a running Workspace has. A destroy that runs the program, and failed, gets the
/// program of now, if there is one.
fn of_kept(case: &Case, workspace: &Workspace) -> Result<Source, Step> {
    if runs_program(case) && kept_workspace::may_change(case) {
        match looked_up(case) {
            Ok(Ok(source)) => return Ok(source),
            Err(question @ Step::Ask(_)) => return Err(question),
            Ok(Err(_)) | Err(Step::Finish(_)) => {}
        }
    }
    let last = case.status.last_update.as_ref();
    let attempted = last.and_then(|last| last.last_attempted_commit.clone());
    // What comes later without a program has no revision, either.
    let revision = attempted.filter(|_| without_program(case).is_none());
    Ok(Source {
        revision: revision.unwrap_or_default(),
        location: Location::of(&workspace.spec),
    })
}

fn runs_program(case: &Case) -> bool {
    case.world.stack.spec.run_program.unwrap_or(false)
}

/// A destroy works on the state alone, so it does not depend on a source that may be gone.
fn without_program(case: &Case) -> Option<Source> {
    let wanted = case.world.is_deleting() && !runs_program(case);
    let project = case.status.project_info.clone().filter(|_| wanted)?;
    Some(Source {
        revision: String::new(),
        location: Location::Project(project),
    })
}

fn missing(case: &Case, problem: NoSource) -> Step {
    let unavailable = |message| Class::Wait(StackReason::SourceUnavailable, message, MISSING_AGAIN);
    match problem {
        // What a spec names can change without it: a Secret is made, a repository renamed back.
        NoSource::Invalid(message) => case.refused_until_looked_at(message, MISSING_AGAIN),
        NoSource::Unavailable(message) => {
            case.blocked(&unavailable(needed_by_destroy(case, message)))
        }
        NoSource::Unreachable { since, message } => {
            let known_until = since.saturating_add(STALE_AFTER).unwrap_or(since);
            if !case.was_up_to_date() || case.now >= known_until {
                return case.blocked(&unavailable(message));
            }
            let message = format!(
                "the stack was up to date when its source last answered; since {since:.0} it does not: {message}"
            );
            let summary = Summary::ReadyBut(StackReason::SourceUnavailable, message);
            let left = case.now.duration_until(known_until).unsigned_abs();
            case.waiting(&summary, Requeue::after(left.min(MISSING_AGAIN)))
        }
        // What was said of this very spec stays: a manager that starts has not asked anybody yet.
        NoSource::Pending(_) if is_about_now(case) => {
            finish(Vec::new(), Requeue::after(PENDING_AGAIN))
        }
        NoSource::Pending(message) => case.blocked(&Class::Retry(
            StackReason::StackProcessing,
            message,
            PENDING_AGAIN,
        )),
    }
}

/// The message, and for a deletion the object that its destroy can't do without.
fn needed_by_destroy(case: &Case, message: String) -> String {
    let object = match Wanted::of(&case.world.stack) {
        Ok(Some(Wanted::Program(name))) => format!("Program \"{name}\""),
        Ok(Some(Wanted::Flux(flux))) => format!("{} \"{}\"", flux.kind, flux.name),
        _ => return message,
    };
    if !case.world.is_deleting() {
        return message;
    }
    format!("{message}; {NO_WORKSPACE}: re-create or repair {object}")
}

/// Whether the stored status is about the spec and the request of now, with nothing to add.
fn is_about_now(case: &Case) -> bool {
    let status = &case.status;
    let request = status.observed_reconcile_request.as_deref();
    case.absorbed.is_none()
        && !status.conditions.is_empty()
        && status.observed_generation == Some(case.world.generation())
        && request.unwrap_or_default() == case.world.request()
}
