//! What is wrong with a spec, told by field and value: the API server takes more than can be carried out. No I/O.
//!
//! A *problem* is what upstream's operator could not carry out either: the Stack is stalled. A *remark* is about what
//! it carries out in its own way without a word: the Stack goes on in the same way, and says so in its condition.

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

/// The first thing that it finds wrong.
type Check = fn(&Stack) -> Option<String>;

/// What no workspace can be made of, be it for an update or for a destroy.
const OF_THE_WORKSPACE: &[Check] = &[
    lengths::too_long, // before anything takes time in proportion to them
    references::unusable,
    references::unnameable,
    repeated::variable,
    repeated::key,
    nesting::config,
];

/// What a Stack that goes has no use for any more.
const OF_AN_UPDATE: &[Check] = &[
    prerequisites::without_time,
    targets::unnameable,
    targets::read_back,
];

/// What the Stack goes on with.
const REMARKS: &[Check] = &[sources::several, sources::several_credentials];

/// Why the spec can't be carried out.
pub(super) fn problem(observed: &ObservedStack) -> Option<String> {
    let stack = &observed.stack;
    let updated: &[Check] = if observed.is_deleting() {
        &[]
    } else {
        OF_AN_UPDATE
    };
    let mut checks = OF_THE_WORKSPACE.iter().chain(updated);
    checks.find_map(|check| check(stack))
}

/// What the user should know of a spec that is carried out.
pub(super) fn remark(stack: &Stack) -> Option<String> {
    let remarks: Vec<String> = REMARKS.iter().filter_map(|check| check(stack)).collect();
    (!remarks.is_empty()).then(|| remarks.join("; "))
}

/// Fields as a sentence lists them: `a`, `a and b`, `a, b and c`.
fn listed(fields: &[String]) -> String {
    match fields {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}
