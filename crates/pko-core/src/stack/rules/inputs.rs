//! The ConfigMaps and Secrets without which a workspace can't start.

use crate::stack::{
    Refusal, StackEvaluation, StackStep, StackWrite, desired,
    facts::{existing_workspace, inputs, source},
};

/// Waits until every input of the workspace exists.
pub(in crate::stack) fn wait(evaluation: &StackEvaluation) -> Option<StackStep> {
    inputs::next_read(evaluation).or_else(|| {
        let problem = inputs::problem(evaluation)?;
        Some(evaluation.wait_for_inputs(problem))
    })
}

/// Finds out whether the namespace is terminating, if a Stack is deleted and an input is missing. A
/// terminating namespace loses its Secrets before its Stacks, and then the user should read about
/// the namespace. It is terminating if it rejects a new Workspace, so this is skipped if one
/// exists.
pub(in crate::stack) fn check_namespace(evaluation: &StackEvaluation) -> Option<StackStep> {
    if !evaluation.observed.is_deleting() {
        return None;
    }
    if let Some(read) = inputs::next_read(evaluation) {
        return Some(read);
    }
    inputs::problem(evaluation)?;
    if existing_workspace::find_existing(evaluation)
        .ok()?
        .is_some()
    {
        return None;
    }
    let source = source::find(evaluation).ok()?;
    let workspace = desired::workspace(&evaluation.observed, &evaluation.status, &source).ok()?;
    let stored = evaluation.observed.stack.status.clone().unwrap_or_default();
    let write = || StackWrite::ApplyWorkspace(Box::new(workspace), Box::new(stored));
    match evaluation.observed.workspace.or_write(write) {
        Err(request) => Some(request),
        Ok(Err(Refusal::NamespaceTerminating)) => {
            Some(evaluation.block(&evaluation.namespace_terminating()))
        }
        Ok(_) => None,
    }
}
