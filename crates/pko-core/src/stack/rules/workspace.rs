//! The Workspace that an update needs.

use std::time::Duration;

use pko_api::{
    Workspace,
    names::{
        conditions::ConditionType,
        reasons::{StackReason, WorkspaceReason},
    },
    pulumi::v1::StackStatus,
};

use super::source;
use crate::{
    Class,
    condition_set::{Summary, find, is_true},
    stack::{Case, Question, Step, desired},
    step::Requeue,
};

/// A Workspace's own events end the wait; this is for one that was missed.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Applies the Workspace and waits until it is ready.
pub(in crate::stack) fn provision(case: &Case) -> Option<Step> {
    let source = source::known(case)?;
    let published = published(case);
    let ask = || {
        let workspace = desired::workspace(&case.world.stack, &source);
        Question::ApplyWorkspace(Box::new(workspace), Box::new(published.clone()))
    };
    let workspace = match case.world.workspace.or_ask(ask) {
        Ok(workspace) => workspace,
        Err(question) => return Some(question),
    };
    let case = case.after_publishing(published);
    match workspace {
        Err(class) => Some(case.blocked(class)),
        Ok(workspace) if is_ready(workspace) => None,
        Ok(workspace) => Some(match stall(workspace) {
            Some(class) => case.blocked(&class),
            None => case.waiting(&waiting(), Requeue::after(LOOK_AGAIN)),
        }),
    }
}

fn waiting() -> Summary {
    Summary::Reconciling(
        StackReason::StackProcessing,
        "waiting for workspace readiness".to_owned(),
    )
}

/// The status while the Workspace is applied. One about this very spec that says why the Stack is not ready
/// stays until it is known to be over: a look at it now and then does not make it come and go.
fn published(case: &Case) -> StackStatus {
    let status = &case.status;
    let same = status.observed_generation == Some(case.world.generation())
        && status.observed_reconcile_request.as_deref() == Some(case.world.request());
    let is = |kind| is_true(&status.conditions, kind);
    if same
        && !is(ConditionType::Ready)
        && (is(ConditionType::Stalled) || is(ConditionType::Reconciling))
    {
        return status.clone();
    }
    case.summarised(&waiting())
}

/// Ready, and for the spec that it has now.
pub(crate) fn is_ready(workspace: &Workspace) -> bool {
    let deleting = workspace.metadata.deletion_timestamp.is_some();
    !deleting && is_current(workspace) && has(workspace, ConditionType::Ready)
}

/// A stall counts only if it is about the spec of now: an old one may just have been mended.
fn stall(workspace: &Workspace) -> Option<Class> {
    let conditions = &workspace.status.as_ref()?.conditions;
    let stalled = find(conditions, ConditionType::Stalled)
        .filter(|_| is_current(workspace) && has(workspace, ConditionType::Stalled))?;
    let message = format!("{}: {}", stalled.reason, stalled.message);
    if stalled.reason == WorkspaceReason::IncompatibleConfiguration.as_str() {
        return Some(Class::Stall(StackReason::PulumiVersionTooLow, message));
    }
    // The Workspace is tried again, so this one may pass without a change of the spec.
    Some(Class::Wait(
        StackReason::WorkspaceFailed,
        message,
        LOOK_AGAIN,
    ))
}

fn is_current(workspace: &Workspace) -> bool {
    let status = workspace.status.as_ref();
    status.and_then(|status| status.observed_generation) == workspace.metadata.generation
}

fn has(workspace: &Workspace, kind: ConditionType) -> bool {
    let status = workspace.status.as_ref();
    status.is_some_and(|status| is_true(&status.conditions, kind))
}
