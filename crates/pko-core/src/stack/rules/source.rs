//! Where the program comes from, and which revision it is at.

use crate::stack::{Case, Location, Question, Source, Step};

/// Finds out the source's revision, or reports why there is none.
pub(in crate::stack) fn resolve(case: &Case) -> Option<Step> {
    of(case).err()
}

/// The source of a case that has passed [`resolve`].
pub(super) fn known(case: &Case) -> Option<Source> {
    of(case).ok()
}

fn of(case: &Case) -> Result<Source, Step> {
    if let Some(source) = without_program(case) {
        return Ok(source);
    }
    let Some(program) = &case.world.stack.spec.program_ref else {
        return Ok(Source {
            revision: String::new(),
            location: Location::Given,
        });
    };
    let source = case
        .world
        .source
        .or_ask(|| Question::Program(program.name.clone()))?;
    source.clone().map_err(|class| case.blocked(&class))
}

/// A destroy works on the state alone, so it does not depend on a source that may be gone.
fn without_program(case: &Case) -> Option<Source> {
    let wanted = case.world.is_deleting() && !case.world.stack.spec.run_program.unwrap_or(false);
    let project = case.status.project_info.clone().filter(|_| wanted)?;
    Some(Source {
        revision: String::new(),
        location: Location::Project(project),
    })
}
