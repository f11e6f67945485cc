//! Workspaces that belong to nobody because their Stack is deleted in the foreground, and whose Stack has gone without them:
//! somebody let it go by hand. Whatever has an owner, or no mark of ours, is never looked at here.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{
    Workspace,
    names::{annotations, labels},
};

use super::{WorkspaceEffect, WorkspaceEvaluation, WorkspaceRead, WorkspaceStep};
use crate::{
    finalizers::is_released,
    step::{Requeue, finish},
};

/// How soon it is seen that the Stack has gone: nobody else hears of it.
const STACK_AGAIN: Duration = Duration::from_mins(1);

/// Deletes a Workspace whose Stack will not do so any more.
pub(super) fn delete_orphan(evaluation: &WorkspaceEvaluation) -> Option<WorkspaceStep> {
    let (stack, _) = destroyed_stack(&evaluation.observed.workspace)?;
    match evaluation
        .observed
        .awaited
        .or_read(|| WorkspaceRead::Awaited(stack.to_owned()))
    {
        Err(request) => Some(request),
        Ok(true) => None,
        // The next look is for a deletion that did not come about, because the Workspace was another one by then.
        Ok(false) => Some(finish(
            vec![WorkspaceEffect::Delete],
            Requeue::after(STACK_AGAIN),
        )),
    }
}

/// Whether a Stack waits for this Workspace: it is the very one whose destroy the Workspace was made for, and has not been
/// let go.
#[must_use]
pub fn is_awaited(workspace: &Workspace, stack: &ObjectMeta) -> bool {
    let made_for = destroyed_stack(workspace).map(|(_, uid)| uid);
    !is_released(stack) && made_for == stack.uid.as_deref()
}

/// How soon a Workspace without an owner is reconciled again: no event reports that its Stack is gone.
pub(super) fn longest_requeue(workspace: &Workspace) -> Option<Duration> {
    let is_deleting = workspace.metadata.deletion_timestamp.is_some();
    (!is_deleting && destroyed_stack(workspace).is_some()).then_some(STACK_AGAIN)
}

/// The name and the uid of the Stack that has made this Workspace without owning it.
fn destroyed_stack(workspace: &Workspace) -> Option<(&str, &str)> {
    let metadata = &workspace.metadata;
    if metadata.owner_references.iter().flatten().next().is_some() {
        return None;
    }
    let uid = metadata.annotations.as_ref()?.get(annotations::DESTROYS)?;
    let name = metadata.labels.as_ref()?.get(labels::STACK_NAME)?;
    Some((name, uid))
}
