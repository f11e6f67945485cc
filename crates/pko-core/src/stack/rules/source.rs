//! The source of the program.

use crate::stack::{StackEvaluation, StackStep, facts::source};

/// Reads the source's revision, or reports why there is none.
pub(in crate::stack) fn resolve(evaluation: &StackEvaluation) -> Option<StackStep> {
    let problem = source::find(evaluation).err()?;
    Some(evaluation.wait_for_source(problem))
}
