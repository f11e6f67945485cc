//! Checks of a spec that the API server has accepted. Messages name the field and its value.
//!
//! A *problem* stalls the Stack: upstream's operator could not carry out such a spec either. A
//! *remark* is about a field that upstream's operator ignores silently: the Stack ignores it, too,
//! and its condition reports that.

mod lengths;
mod nesting;
mod prerequisites;
mod references;
mod repeated;
mod sources;
mod targets;
#[cfg(test)]
mod tests;

use pko_api::Stack;

use super::ObservedStack;

/// Returns the message about the first problem.
type Check = fn(&Stack) -> Option<String>;

/// Checks for an update and for a destroy: no workspace can be created otherwise.
const WORKSPACE_CHECKS: &[Check] = &[
    lengths::too_long, // before anything takes time in proportion to them
    references::invalid_reference,
    references::invalid_variable,
    repeated::repeated_variable,
    repeated::repeated_key,
    nesting::config,
];

/// Checks for an update only.
const UPDATE_CHECKS: &[Check] = &[
    prerequisites::zero_duration,
    targets::invalid_name,
    targets::target_is_input,
];

/// Checks for remarks.
const REMARKS: &[Check] = &[sources::several_sources, sources::several_credentials];

/// Why the spec can't be carried out.
pub(super) fn problem(observed: &ObservedStack) -> Option<String> {
    let stack = &observed.stack;
    let update_checks: &[Check] = if observed.is_deleting() {
        &[]
    } else {
        UPDATE_CHECKS
    };
    let mut checks = WORKSPACE_CHECKS.iter().chain(update_checks);
    checks.find_map(|check| check(stack))
}

/// Remarks on a spec that is carried out.
pub(super) fn remark(stack: &Stack) -> Option<String> {
    let remarks: Vec<String> = REMARKS.iter().filter_map(|check| check(stack)).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

/// Joins fields for a sentence: `a`, `a and b`, `a, b and c`.
fn join_fields(fields: &[String]) -> String {
    match fields {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
