//! Workspaces that belong to nobody because their Stack is deleted in the foreground, and whose Stack has gone without them:
//! somebody let it go by hand. Whatever has an owner, or no mark of ours, is never looked at here.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{
    Workspace,
    names::{annotations, labels},
};

use super::{Case, Effect, Question, Step, World};
use crate::{
    stack::is_held,
    step::{Plan, Requeue, finish},
};

/// How soon it is seen that the Stack has gone: nobody else hears of it.
const STACK_AGAIN: Duration = Duration::from_mins(1);

/// Deletes a Workspace whose Stack will not do so any more.
pub(super) fn delete(case: &Case) -> Option<Step> {
    let (stack, _) = made_for(&case.world.workspace)?;
    match case
        .world
        .awaited
        .or_ask(|| Question::Awaited(stack.to_owned()))
    {
        Err(question) => Some(question),
        Ok(true) => None,
        // The next look is for a deletion that did not come about, because the Workspace was another one by then.
        Ok(false) => Some(finish(vec![Effect::Delete], Requeue::after(STACK_AGAIN))),
    }
}

/// Whether a Stack waits for this Workspace: it is the very one whose destroy the Workspace was made for, and has not been
/// let go.
#[must_use]
pub fn is_awaited(workspace: &Workspace, stack: &ObjectMeta) -> bool {
    let is_let_go = stack.deletion_timestamp.is_some() && !is_held(stack);
    let made_for = made_for(workspace).map(|(_, uid)| uid);
    !is_let_go && made_for == stack.uid.as_deref()
}

/// Whatever such a Workspace waits for, and if it is nothing: it is looked at again.
pub(super) fn looked_at_again(world: &World, step: Step) -> Step {
    let is_ours = || {
        let is_deleting = world.workspace.metadata.deletion_timestamp.is_some();
        !is_deleting && made_for(&world.workspace).is_some()
    };
    match step {
        Step::Finish(plan) if is_ours() => Step::Finish(Plan {
            requeue: match plan.requeue {
                Requeue::After(delay) => Requeue::After(delay.min(STACK_AGAIN)),
                Requeue::Settled => Requeue::After(STACK_AGAIN),
            },
            ..plan
        }),
        step => step,
    }
}

/// The name and the uid of the Stack that has made this Workspace without owning it.
fn made_for(workspace: &Workspace) -> Option<(&str, &str)> {
    let metadata = &workspace.metadata;
    if metadata.owner_references.iter().flatten().next().is_some() {
        return None;
    }
    let uid = metadata.annotations.as_ref()?.get(annotations::DESTROYS)?;
    let name = metadata.labels.as_ref()?.get(labels::STACK_NAME)?;
    Some((name, uid))
}
