//! Deletes orphaned Workspaces. A Workspace for the destroy of a Stack that is deleted in the
//! foreground has no owner. If a user removes the Stack's finalizer by hand, the Workspace remains.
//! Workspaces with an owner or without our annotation are never deleted here.

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

/// No event reports that the Stack is gone.
const STACK_AGAIN: Duration = Duration::from_mins(1);

/// Deletes a Workspace whose Stack is gone.
pub(super) fn delete_orphan(evaluation: &WorkspaceEvaluation) -> Option<WorkspaceStep> {
    let (stack, _) = destroyed_stack(&evaluation.observed.workspace)?;
    match evaluation
        .observed
        .awaited
        .or_read(|| WorkspaceRead::Awaited(stack.to_owned()))
    {
        Err(request) => Some(request),
        Ok(true) => None,
        // The requeue covers a delete that failed because the Workspace had changed.
        Ok(false) => Some(finish(
            vec![WorkspaceEffect::Delete],
            Requeue::after(STACK_AGAIN),
        )),
    }
}

/// Whether a Stack waits for this Workspace: the Workspace was created for its destroy, and the
/// Stack has not been released.
#[must_use]
pub fn is_awaited(workspace: &Workspace, stack: &ObjectMeta) -> bool {
    let created_for = destroyed_stack(workspace).map(|(_, uid)| uid);
    !is_released(stack) && created_for == stack.uid.as_deref()
}

/// The requeue of a Workspace without an owner: no event reports that its Stack is gone.
pub(super) fn longest_requeue(workspace: &Workspace) -> Option<Duration> {
    let is_deleting = workspace.metadata.deletion_timestamp.is_some();
    (!is_deleting && destroyed_stack(workspace).is_some()).then_some(STACK_AGAIN)
}

/// The name and uid of the Stack that created this Workspace without owning it.
fn destroyed_stack(workspace: &Workspace) -> Option<(&str, &str)> {
    let metadata = &workspace.metadata;
    if metadata.owner_references.iter().flatten().next().is_some() {
        return None;
    }
    let uid = metadata.annotations.as_ref()?.get(annotations::DESTROYS)?;
    let name = metadata.labels.as_ref()?.get(labels::STACK_NAME)?;
    Some((name, uid))
}
