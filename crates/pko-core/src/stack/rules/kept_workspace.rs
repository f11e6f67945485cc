//! The running Workspace of a Stack that is being deleted.
//!
//! A destroy uses it as it is. What it was started with may be deleted together with the Stack, in
//! any order: Secrets, ConfigMaps, the program. Another Workspace, even one that only drops the
//! source, would be another pod, which could not start without them.
//!
//! A destroy that failed in it may need what the user has changed since, such as new credentials.
//! Then the Workspace is brought up to date before the next attempt, provided that everything that
//! it refers to exists.

use jiff::SignedDuration;
use pko_api::{
    Stack, Workspace,
    auto::v1alpha1::OperationType,
    names::{annotations, conditions::ConditionType, reasons::WorkspaceReason},
};

use super::inputs;
use crate::{
    condition_set::find,
    stack::{StackEvaluation, StackRead, StackStep, desired},
    workspace::{is_current, is_ready},
};

/// What a deletion reports that lacks something which only a new workspace needs.
pub(super) const NO_WORKSPACE: &str =
    "no workspace is running to destroy the stack, and a new one can't start";
/// How long an agent that runs may take to be ready. After that a Workspace without a program may
/// do better.
const AGENT_WAIT: SignedDuration = SignedDuration::from_mins(1);

/// The Workspace, if the Stack is being deleted and the Workspace runs.
pub(super) fn find_running(evaluation: &StackEvaluation) -> Result<Option<&Workspace>, StackStep> {
    let found = find_existing(evaluation)?;
    Ok(found.filter(|workspace| is_running(evaluation, workspace)))
}

/// The Workspace of a Stack that is being deleted, whatever state it is in.
pub(super) fn find_existing(evaluation: &StackEvaluation) -> Result<Option<&Workspace>, StackStep> {
    if !evaluation.observed.is_deleting() {
        return Ok(None);
    }
    let stack = &evaluation.observed.stack;
    let read = || StackRead::ExistingWorkspace(desired::workspace_name(stack).to_owned());
    let found = evaluation
        .observed
        .existing_workspace
        .or_read(read)?
        .as_ref();
    Ok(found.filter(|workspace| is_of(stack, workspace)))
}

/// Whether the next destroy uses the Workspace without a change. Valid once the inputs are known,
/// if they are needed.
pub(super) fn is_unchanged(evaluation: &StackEvaluation) -> bool {
    let running = find_running(evaluation).ok().flatten();
    running.is_some() && !(may_change(evaluation) && inputs::missing(evaluation).is_empty())
}

/// Whether the next destroy takes up what has changed since the Workspace was started: the last one
/// failed in it.
pub(super) fn may_change(evaluation: &StackEvaluation) -> bool {
    let last = evaluation.status.last_update.as_ref();
    last.is_some_and(|last| last.operation == Some(OperationType::Destroy))
}

/// One of another Stack of the same name goes with that Stack.
fn is_of(stack: &Stack, workspace: &Workspace) -> bool {
    let metadata = &workspace.metadata;
    let mut owners = metadata.owner_references.iter().flatten();
    let annotations = metadata.annotations.as_ref();
    let made_for = annotations.and_then(|annotations| annotations.get(annotations::DESTROYS));
    let uid = stack.metadata.uid.as_ref();
    owners.any(|owner| Some(&owner.uid) == uid) || (made_for.is_some() && made_for == uid)
}

/// Whether an agent runs there that is ready, or will be in a moment.
fn is_running(evaluation: &StackEvaluation, workspace: &Workspace) -> bool {
    use WorkspaceReason::{ConnectionFailed, Idle, Initializing, Installing};

    let conditions = workspace.status.as_ref().map(|status| &status.conditions);
    let ready = conditions.and_then(|conditions| find(conditions, ConditionType::Ready));
    let Some(ready) = ready else {
        return false;
    };
    let is = |reason: WorkspaceReason| ready.reason == reason.as_str();
    if is_ready(workspace) {
        return !is(Idle);
    }
    let is_live = workspace.metadata.deletion_timestamp.is_none() && is_current(workspace);
    let is_young = evaluation.now.duration_since(ready.last_transition_time.0) < AGENT_WAIT;
    is_live
        && is_young
        && [ConnectionFailed, Installing, Initializing]
            .map(is)
            .contains(&true)
}
