//! Where the program comes from, and which revision it is at.

use crate::{
    stack::{Case, Location, Question, Source, Step},
    step::finish,
};

/// Finds out the source's revision, or reports why there is none.
pub(in crate::stack) fn resolve(case: &Case) -> Option<Step> {
    match of(case) {
        Ok(Ok(_)) => None,
        Ok(Err(step)) | Err(step) => Some(step),
    }
}

/// The source of a case that has passed [`resolve`].
pub(super) fn known(case: &Case) -> Option<Source> {
    of(case).ok()?.ok()
}

type Resolved = Result<Source, Step>;

fn of(case: &Case) -> Result<Resolved, Step> {
    if let Some(source) = without_program(case) {
        return Ok(Ok(source));
    }
    let Some(program) = &case.world.stack.spec.program_ref else {
        return Ok(Ok(Source {
            revision: String::new(),
            location: Location::Given,
        }));
    };
    match case
        .world
        .source
        .or_ask(|| Question::Program(program.name.clone()))?
    {
        Ok(source) => Ok(Ok(source.clone())),
        Err(class) => {
            let effects = case.recorded(case.summarised(&class.summary()));
            Ok(Err(finish(effects, class.requeue())))
        }
    }
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
