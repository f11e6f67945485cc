//! The running Workspace of a Stack that is being deleted.
//!
//! A destroy uses it without a change. Its Secrets, its ConfigMaps and its program may be deleted
//! together with the Stack, in any order. Another Workspace, even one that only drops the source,
//! would need another pod, which could not start without them.
//!
//! A destroy that failed in it may need what the user has changed since, such as new credentials.
//! Then the Workspace is updated before the next attempt, provided that everything that it refers
//! to exists.

use jiff::SignedDuration;
use pko_api::{
    Stack, Workspace,
    auto::v1alpha1::OperationType,
    names::{annotations, conditions::ConditionType, reasons::WorkspaceReason},
};

use crate::{
    condition_set::find,
    stack::{StackEvaluation, StackRead, StackStep, desired, references},
    workspace::{is_current, is_ready},
};

/// What a deletion reports if something is missing that only a new workspace needs.
pub(in crate::stack) const NO_WORKSPACE: &str =
    "no workspace is running to destroy the stack, and a new one can't start";
/// How long a running agent may take to become ready. After that, a Workspace without a program is
/// the better choice.
const AGENT_WAIT: SignedDuration = SignedDuration::from_mins(1);

/// The Workspace, if the Stack is being deleted and the Workspace runs.
///
/// # Errors
/// The read that finds it.
pub(in crate::stack) fn find_running(
    evaluation: &StackEvaluation,
) -> Result<Option<&Workspace>, StackStep> {
    let found = find_existing(evaluation)?;
    Ok(found.filter(|workspace| is_running(evaluation, workspace)))
}

/// The Workspace of a Stack that is being deleted, in any state.
///
/// # Errors
/// The read that finds it.
pub(in crate::stack) fn find_existing(
    evaluation: &StackEvaluation,
) -> Result<Option<&Workspace>, StackStep> {
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
    Ok(found.filter(|workspace| belongs_to(stack, workspace)))
}

/// Whether the next destroy uses the Workspace without a change. Valid once the inputs have been
/// read, if they are needed.
pub(in crate::stack) fn is_unchanged(evaluation: &StackEvaluation) -> bool {
    let running = find_running(evaluation).ok().flatten();
    running.is_some()
        && !(may_change(evaluation) && references::missing(&evaluation.observed).is_empty())
}

/// Whether the Workspace may change before the next destroy, because the last one failed in it.
pub(in crate::stack) fn may_change(evaluation: &StackEvaluation) -> bool {
    let last = evaluation.status.last_update.as_ref();
    last.is_some_and(|last| last.operation == Some(OperationType::Destroy))
}

/// Whether the Workspace was applied for this very Stack, not for an earlier one of the same name.
fn belongs_to(stack: &Stack, workspace: &Workspace) -> bool {
    let metadata = &workspace.metadata;
    let mut owners = metadata.owner_references.iter().flatten();
    let annotations = metadata.annotations.as_ref();
    let made_for = annotations.and_then(|annotations| annotations.get(annotations::DESTROYS));
    let uid = stack.metadata.uid.as_ref();
    owners.any(|owner| Some(&owner.uid) == uid) || (made_for.is_some() && made_for == uid)
}

/// Whether its agent is ready, or about to become ready.
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
