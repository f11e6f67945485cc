//! Where the program comes from, and which revision it is at.

use std::time::Duration;

use jiff::SignedDuration;
use pko_api::{Workspace, names::reasons::StackReason};

use super::kept_workspace::{self, NO_WORKSPACE};
use crate::{
    Blocked,
    condition_set::Summary,
    stack::{
        Location, ProgramSource, SourceError, SourceRef, StackEvaluation, StackRead, StackStep,
    },
    step::{Requeue, finish},
};

/// For a source that is not there, or can't be read: its own event ends the wait, if one comes.
const MISSING_AGAIN: Duration = Duration::from_secs(30);
/// For a source that is on its way, which triggers the Stack when it arrives.
const PENDING_AGAIN: Duration = Duration::from_secs(30);
/// For so long a Stack that was up to date stays so while nobody answers.
const STALE_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Finds out the source's revision, or reports why there is none.
pub(in crate::stack) fn resolve(evaluation: &StackEvaluation) -> Option<StackStep> {
    of(evaluation).err()
}

/// The source of a case that has passed [`resolve`].
pub(super) fn known(evaluation: &StackEvaluation) -> Option<ProgramSource> {
    of(evaluation).ok()
}

/// The source, or what to do without it: ask, or report.
pub(super) fn of(evaluation: &StackEvaluation) -> Result<ProgramSource, StackStep> {
    if let Some(workspace) = kept_workspace::find_running(evaluation)? {
        return of_kept(evaluation, workspace);
    }
    if let Some(source) = without_program(evaluation) {
        return Ok(source);
    }
    looked_up(evaluation)?.map_err(|problem| missing(evaluation, problem))
}

/// The source that the spec names, as it is now.
fn looked_up(
    evaluation: &StackEvaluation,
) -> Result<Result<ProgramSource, SourceError>, StackStep> {
    let wanted =
        SourceRef::of(&evaluation.observed.stack).map_err(|problem| evaluation.refused(problem))?;
    let Some(wanted) = wanted else {
        return Ok(Ok(ProgramSource {
            revision: String::new(),
            location: Location::Given,
        }));
    };
    let source = evaluation
        .observed
        .source
        .or_read(|| StackRead::Source(wanted))?;
    Ok(source.clone())
}

/// The source that a running Workspace has. A destroy that runs the program, and failed, gets the
/// program of now, if there is one.
fn of_kept(
    evaluation: &StackEvaluation,
    workspace: &Workspace,
) -> Result<ProgramSource, StackStep> {
    if runs_program(evaluation) && kept_workspace::may_change(evaluation) {
        match looked_up(evaluation) {
            Ok(Ok(source)) => return Ok(source),
            Ok(Err(_)) | Err(StackStep::Finish(_)) => {}
            Err(request) => return Err(request),
        }
    }
    let last = evaluation.status.last_update.as_ref();
    let attempted = last.and_then(|last| last.last_attempted_commit.clone());
    // What comes later without a program has no revision, either.
    let revision = attempted.filter(|_| without_program(evaluation).is_none());
    Ok(ProgramSource {
        revision: revision.unwrap_or_default(),
        location: Location::of(&workspace.spec),
    })
}

fn runs_program(evaluation: &StackEvaluation) -> bool {
    evaluation.observed.stack.spec.run_program.unwrap_or(false)
}

/// A destroy works on the state alone, so it does not depend on a source that may be gone.
fn without_program(evaluation: &StackEvaluation) -> Option<ProgramSource> {
    let wanted = evaluation.observed.is_deleting() && !runs_program(evaluation);
    let project = evaluation.status.project_info.clone().filter(|_| wanted)?;
    Some(ProgramSource {
        revision: String::new(),
        location: Location::Project(project),
    })
}

fn missing(evaluation: &StackEvaluation, problem: SourceError) -> StackStep {
    let unavailable =
        |message| Blocked::OnDependency(StackReason::SourceUnavailable, message, MISSING_AGAIN);
    match problem {
        // What a spec names can change without it: a Secret is made, a repository renamed back.
        SourceError::Invalid(message) => evaluation.refused_until_looked_at(message, MISSING_AGAIN),
        SourceError::Unavailable(message) => {
            evaluation.blocked(&unavailable(needed_by_destroy(evaluation, message)))
        }
        SourceError::Unreachable { since, message } => {
            let known_until = since.saturating_add(STALE_AFTER).unwrap_or(since);
            if !evaluation.was_up_to_date() || evaluation.now >= known_until {
                return evaluation.blocked(&unavailable(message));
            }
            let message = format!(
                "the stack was up to date when its source last answered; since {since:.0} it does not: {message}"
            );
            let summary = Summary::ReadyBut(StackReason::SourceUnavailable, message);
            let left = evaluation.now.duration_until(known_until).unsigned_abs();
            evaluation.waiting(&summary, Requeue::after(left.min(MISSING_AGAIN)))
        }
        // What was said of this very spec stays: a manager that starts has not asked anybody yet.
        SourceError::Pending(_) if is_about_now(evaluation) => {
            finish(Vec::new(), Requeue::after(PENDING_AGAIN))
        }
        SourceError::Pending(message) => evaluation.blocked(&Blocked::Transient(
            StackReason::StackProcessing,
            message,
            PENDING_AGAIN,
        )),
    }
}

/// The message, and for a deletion the object that its destroy can't do without.
fn needed_by_destroy(evaluation: &StackEvaluation, message: String) -> String {
    let object = match SourceRef::of(&evaluation.observed.stack) {
        Ok(Some(SourceRef::Program(name))) => format!("Program \"{name}\""),
        Ok(Some(SourceRef::Flux(flux))) => format!("{} \"{}\"", flux.kind, flux.name),
        _ => return message,
    };
    if !evaluation.observed.is_deleting() {
        return message;
    }
    format!("{message}; {NO_WORKSPACE}: re-create or repair {object}")
}

/// Whether the stored status is about the spec and the request of now, with nothing to add.
fn is_about_now(evaluation: &StackEvaluation) -> bool {
    let status = &evaluation.status;
    let request = status.observed_reconcile_request.as_deref();
    evaluation.finished.is_none()
        && !status.conditions.is_empty()
        && status.observed_generation == Some(evaluation.observed.generation())
        && request.unwrap_or_default() == evaluation.observed.request()
}
