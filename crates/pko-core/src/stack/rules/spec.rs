//! A spec that can't be carried out, whatever the world is like.

use crate::stack::{StackEvaluation, StackStep, check};

/// Refuses it, by field and value, before anything is made.
pub(in crate::stack) fn refuse(evaluation: &StackEvaluation) -> Option<StackStep> {
    let problem = check::problem(&evaluation.observed)?;
    Some(evaluation.refused(problem))
}
