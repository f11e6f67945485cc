//! The beginning and the end of a Stack: its finalizer.

use std::time::Duration;

use pko_api::names::finalizers;

use crate::{
    condition_set::Summary,
    stack::{Case, Effect, Step, World},
    step::{Requeue, finish},
};

/// How soon a Stack that was just adopted is looked at, if the write's own event does not come.
const AFTER_ADOPTION: Duration = Duration::from_secs(1);

/// Whether our finalizer is on the Stack.
pub(in crate::stack) fn is_held(world: &World) -> bool {
    let finalizers = world.stack.metadata.finalizers.as_ref();
    finalizers.is_some_and(|names| names.iter().any(|name| name == finalizers::STACK))
}

/// A Stack that is being deleted and that we have let go is somebody else's.
pub(in crate::stack) fn already_released(case: &Case) -> Option<Step> {
    let released = case.world.is_deleting() && !is_held(&case.world);
    released.then(|| finish(Vec::new(), Requeue::Settled))
}

/// A new Stack gets our finalizer before anything is made for it.
pub(in crate::stack) fn add_finalizer(case: &Case) -> Option<Step> {
    let new = !is_held(&case.world);
    new.then(|| finish(vec![Effect::AddFinalizer], Requeue::after(AFTER_ADOPTION)))
}

/// A Stack that owes no destroy goes at once.
pub(in crate::stack) fn release_without_destroy(case: &Case) -> Option<Step> {
    let free = case.world.is_deleting() && !case.world.owes_destroy();
    free.then(|| release(case))
}

/// Lets the Stack go, with the last result recorded: others may hold it still, and see it.
pub(in crate::stack) fn release(case: &Case) -> Step {
    let status = case.summarised(&Summary::Ready);
    let deeds = case
        .release_again()
        .into_iter()
        .chain([Effect::RemoveFinalizer]);
    case.plan(status, deeds, None, Requeue::Settled)
}
