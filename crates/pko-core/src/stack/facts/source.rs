//! Which program a Stack runs, at which revision.

use pko_api::Workspace;

use super::existing_workspace;
use crate::stack::{
    Location, ProgramSource, SourceError, SourceRef, StackEvaluation, StackRead, StackStep,
};

/// Why there is no source.
pub(in crate::stack) enum NoSource {
    /// This read comes first.
    Unread(StackStep),
    /// The spec can't be followed.
    Invalid(String),
    /// The source can't be used.
    Failed(SourceError),
}

/// The source of the next run.
///
/// # Errors
/// Why there is none.
pub(in crate::stack) fn find(evaluation: &StackEvaluation) -> Result<ProgramSource, NoSource> {
    let running = existing_workspace::find_running(evaluation).map_err(NoSource::Unread)?;
    if let Some(workspace) = running {
        return source_of_workspace(evaluation, workspace);
    }
    if let Some(source) = source_without_program(evaluation) {
        return Ok(source);
    }
    source_of_spec(evaluation)
}

/// The source that the spec names, at its current revision.
fn source_of_spec(evaluation: &StackEvaluation) -> Result<ProgramSource, NoSource> {
    let reference = SourceRef::of(&evaluation.observed.stack).map_err(NoSource::Invalid)?;
    let Some(reference) = reference else {
        return Ok(ProgramSource {
            revision: String::new(),
            location: Location::Given,
        });
    };
    let source = evaluation
        .observed
        .source
        .or_read(|| StackRead::Source(reference));
    let source = source.map_err(NoSource::Unread)?;
    source.clone().map_err(NoSource::Failed)
}

/// The source that a running Workspace has. If a destroy that runs the program has failed, the next
/// one gets the current program, if there is one.
fn source_of_workspace(
    evaluation: &StackEvaluation,
    workspace: &Workspace,
) -> Result<ProgramSource, NoSource> {
    if runs_program(evaluation) && existing_workspace::may_change(evaluation) {
        match source_of_spec(evaluation) {
            Err(NoSource::Invalid(_) | NoSource::Failed(_)) => {}
            source => return source,
        }
    }
    let last = evaluation.status.last_update.as_ref();
    let attempted = last.and_then(|last| last.last_attempted_commit.clone());
    // A later destroy without a program has no revision either.
    let revision = attempted.filter(|_| source_without_program(evaluation).is_none());
    Ok(ProgramSource {
        revision: revision.unwrap_or_default(),
        location: Location::of(&workspace.spec),
    })
}

fn runs_program(evaluation: &StackEvaluation) -> bool {
    evaluation.observed.stack.spec.run_program.unwrap_or(false)
}

/// For a destroy that works on the state alone, so that it does not depend on a source that may be
/// gone.
fn source_without_program(evaluation: &StackEvaluation) -> Option<ProgramSource> {
    let is_enough = evaluation.observed.is_deleting() && !runs_program(evaluation);
    let project = evaluation
        .status
        .project_info
        .clone()
        .filter(|_| is_enough)?;
    Some(ProgramSource {
        revision: String::new(),
        location: Location::Project(project),
    })
}
