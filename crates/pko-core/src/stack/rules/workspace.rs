//! The Workspace that an update needs.

use std::time::Duration;

use pko_api::{
    Workspace,
    names::{
        conditions::ConditionType,
        reasons::{StackReason, WorkspaceReason},
    },
};

use super::source;
use crate::{
    Class,
    condition_set::{Summary, find, is_true},
    stack::{Case, Question, Step, desired},
    step::{Requeue, finish},
};

/// A Workspace's own events end the wait; this is for one that was missed.
const LOOK_AGAIN: Duration = Duration::from_mins(1);

/// Applies the Workspace and waits until it is ready.
pub(in crate::stack) fn provision(case: &Case) -> Option<Step> {
    let source = source::known(case)?;
    let waiting = Summary::Reconciling(
        StackReason::StackProcessing,
        "waiting for workspace readiness".to_owned(),
    );
    let ask = || {
        let workspace = desired::workspace(&case.world.stack, &source);
        Question::ApplyWorkspace(Box::new(workspace), Box::new(case.summarised(&waiting)))
    };
    let workspace = match case.world.workspace.or_ask(ask) {
        Ok(workspace) => workspace,
        Err(question) => return Some(question),
    };
    match workspace {
        Err(class) => Some(report(case, class)),
        Ok(workspace) if is_ready(workspace) => None,
        Ok(workspace) => Some(match stall(workspace) {
            Some(class) => report(case, &class),
            None => case.waiting(&waiting, Requeue::after(LOOK_AGAIN)),
        }),
    }
}

fn report(case: &Case, class: &Class) -> Step {
    finish(
        case.recorded(case.summarised(&class.summary())),
        class.requeue(),
    )
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
    let reason = if stalled.reason == WorkspaceReason::IncompatibleConfiguration.as_str() {
        StackReason::PulumiVersionTooLow
    } else {
        StackReason::WorkspaceFailed
    };
    Some(Class::Stall(
        reason,
        format!("{}: {}", stalled.reason, stalled.message),
    ))
}

fn is_current(workspace: &Workspace) -> bool {
    let observed = workspace
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    observed == workspace.metadata.generation
}

fn has(workspace: &Workspace, kind: ConditionType) -> bool {
    workspace
        .status
        .as_ref()
        .is_some_and(|status| is_true(&status.conditions, kind))
}
