//! Specs that can't be carried out in any cluster.

use crate::stack::{StackEvaluation, StackStep, check};

/// Rejects such a spec, by field and value, before anything is created.
pub(in crate::stack) fn reject(evaluation: &StackEvaluation) -> Option<StackStep> {
    let problem = check::problem(&evaluation.observed)?;
    Some(evaluation.reject_spec(problem))
}
