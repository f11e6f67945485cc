//! A spec that can't be carried out, whatever the world is like.

use crate::stack::{Case, Step, check};

/// Refuses it, by field and value, before anything is made.
pub(in crate::stack) fn refuse(case: &Case) -> Option<Step> {
    let problem = check::problem(&case.world)?;
    Some(case.refused(problem))
}
