//! The ConfigMaps and Secrets without which a workspace could not start.

use std::time::Duration;

use super::{
    kept_workspace::{self, NO_WORKSPACE},
    workspace,
};
use crate::stack::{
    StackEvaluation, StackStep,
    references::{self, Reference, ReferenceKind},
};

/// For a Secret that nobody watches; the event of any other object ends the wait.
const MISSING_AGAIN: Duration = Duration::from_secs(30);

/// Waits until everything is there that the workspace reads. A Stack that is being deleted needs it
/// only where no workspace runs any more. What only a source needs is the source's to tell.
pub(in crate::stack) fn wait(evaluation: &StackEvaluation) -> Option<StackStep> {
    ask(evaluation).or_else(|| {
        let problem = problem(evaluation)?;
        let refused = || refuse(evaluation, problem);
        Some(workspace::try_in_namespace(evaluation).unwrap_or_else(refused))
    })
}

/// Waits for what is missing, and reports it.
pub(super) fn refuse(evaluation: &StackEvaluation, problem: String) -> StackStep {
    evaluation.refused_until_looked_at(problem, MISSING_AGAIN)
}

/// Asks for what is not known of them, and matters.
pub(super) fn ask(evaluation: &StackEvaluation) -> Option<StackStep> {
    match kept_workspace::find_running(evaluation) {
        Err(question) => return Some(question),
        Ok(Some(_)) if !kept_workspace::may_change(evaluation) => return None,
        Ok(_) => {}
    }
    let kinds = [ReferenceKind::ConfigMap, ReferenceKind::Secret];
    kinds
        .into_iter()
        .find_map(|kind| references::ask(&evaluation.observed, kind))
}

/// Those of them that do not exist.
pub(super) fn missing(evaluation: &StackEvaluation) -> Vec<Reference<'_>> {
    let mut missing: Vec<Reference> = Vec::new();
    for input in references::inputs(&evaluation.observed.stack.spec) {
        let is_missing = references::is_missing(&evaluation.observed, &input);
        let same = |other: &Reference| (other.kind, other.name) == (input.kind, input.name);
        if is_missing && !missing.iter().any(same) {
            missing.push(input);
        }
    }
    missing
}

/// What keeps a workspace from starting: the first that does not exist, in upstream's words, and
/// how many more there are. For a deletion, all of them, and what to do: their user has just
/// deleted them.
pub(super) fn problem(evaluation: &StackEvaluation) -> Option<String> {
    let missing = missing(evaluation);
    let (first, others) = missing.split_first()?;
    if kept_workspace::is_unchanged(evaluation) {
        return None;
    }
    let namespace = evaluation.observed.stack.metadata.namespace.as_deref();
    let mut message = not_found(first, namespace.unwrap_or_default());
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

fn not_found(input: &Reference, namespace: &str) -> String {
    let Reference { name, field, .. } = input;
    let (one, all) = match input.kind {
        ReferenceKind::ConfigMap => ("configmap", "configmaps"),
        ReferenceKind::Secret => ("secret", "secrets"),
    };
    format!("unable to get {one} {namespace}/{name}: {all} \"{name}\" not found ({field})")
}
