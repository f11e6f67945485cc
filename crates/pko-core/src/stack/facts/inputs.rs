//! The ConfigMaps and Secrets that a workspace needs to start.

use super::existing_workspace::{self, NO_WORKSPACE};
use crate::stack::{
    StackEvaluation, StackStep,
    references::{self, Reference, ReferenceKind},
};

/// The read of what is still unknown of them. A Stack that is being deleted needs them only if its
/// Workspace does not run or may change.
pub(in crate::stack) fn next_read(evaluation: &StackEvaluation) -> Option<StackStep> {
    match existing_workspace::find_running(evaluation) {
        Err(read) => return Some(read),
        Ok(Some(_)) if !existing_workspace::may_change(evaluation) => return None,
        Ok(_) => {}
    }
    let kinds = [ReferenceKind::ConfigMap, ReferenceKind::Secret];
    kinds
        .into_iter()
        .find_map(|kind| references::next_read(&evaluation.observed, kind))
}

/// Why a workspace can't start: the first input that does not exist, in upstream's words, and how
/// many more are missing. For a deletion it lists all of them and what to do, because the user may
/// have just deleted them.
pub(in crate::stack) fn problem(evaluation: &StackEvaluation) -> Option<String> {
    let missing = references::missing(&evaluation.observed);
    let (first, others) = missing.split_first()?;
    if existing_workspace::is_unchanged(evaluation) {
        return None;
    }
    let namespace = evaluation.observed.stack.metadata.namespace.as_deref();
    let mut message = not_found_message(first, namespace.unwrap_or_default());
    if !others.is_empty() {
        message = format!("{message}, and {} more", others.len());
    }
    if evaluation.observed.is_deleting() {
        let names = missing.iter();
        let names: Vec<String> = names
            .map(|input| format!("{} \"{}\"", input.kind, input.name))
            .collect();
        message = format!("{message}; {NO_WORKSPACE}: re-create {}", names.join(", "));
    }
    Some(message)
}

fn not_found_message(input: &Reference, namespace: &str) -> String {
    let Reference { name, field, .. } = input;
    let (one, all) = match input.kind {
        ReferenceKind::ConfigMap => ("configmap", "configmaps"),
        ReferenceKind::Secret => ("secret", "secrets"),
    };
    format!("unable to get {one} {namespace}/{name}: {all} \"{name}\" not found ({field})")
}
