//! The beginning and the end of a Stack: its finalizer.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::{
    auto::v1alpha1::OperationType,
    names::{finalizers, reasons::StackReason},
};

use crate::{
    Class,
    condition_set::Summary,
    stack::{Case, Effect, Step},
    step::{Requeue, finish},
};

/// How soon a Stack that was just adopted is looked at, if the write's own event does not come.
const AFTER_ADOPTION: Duration = Duration::from_secs(1);
/// How soon it is tried again in a namespace that goes.
const NAMESPACE_AGAIN: Duration = Duration::from_secs(30);

/// Whether our finalizer is on a Stack or an Update.
#[must_use]
pub fn is_held(metadata: &ObjectMeta) -> bool {
    let mut names = metadata.finalizers.iter().flatten();
    names.any(|name| name == finalizers::STACK)
}

/// A Stack that is being deleted and that we have let go is somebody else's.
pub(in crate::stack) fn already_released(case: &Case) -> Option<Step> {
    let released = case.world.is_deleting() && !is_held(&case.world.stack.metadata);
    released.then(|| finish(Vec::new(), Requeue::Settled))
}

/// A new Stack gets our finalizer before anything is made for it.
pub(in crate::stack) fn add_finalizer(case: &Case) -> Option<Step> {
    let new = !is_held(&case.world.stack.metadata);
    new.then(|| finish(vec![Effect::AddFinalizer], Requeue::after(AFTER_ADOPTION)))
}

/// A Stack that owes no destroy goes at once.
pub(in crate::stack) fn release_without_destroy(case: &Case) -> Option<Step> {
    let free = case.world.is_deleting() && !case.world.owes_destroy();
    free.then(|| release(case))
}

/// Lets the Stack go, with the last result recorded: others may hold it still, and see it. A Workspace that may not belong
/// to it goes first.
pub(in crate::stack) fn release(case: &Case) -> Step {
    let mut status = case.summarised(&Summary::Ready);
    let current = status.current_update.take();
    let current = current.and_then(|current| current.name);
    let workspace = is_workspace_nobodys(case).then_some(Effect::DeleteWorkspace);
    let updates = case.release_again().into_iter();
    let updates = updates.chain(current.map(Effect::ReleaseUpdate));
    let deeds = updates.chain(workspace);
    case.plan(
        status,
        deeds.chain([Effect::RemoveFinalizer]),
        None,
        Requeue::Settled,
    )
}

/// Whether the Workspace may have been made during a deletion in the foreground, so that nobody else would take it away. The
/// garbage collector, which waits for what it has seen only, may have let the Stack go since.
fn is_workspace_nobodys(case: &Case) -> bool {
    let last = case.status.last_update.as_ref();
    let ran_destroy = last.is_some_and(|last| last.operation == Some(OperationType::Destroy));
    case.world.is_deleted_in_foreground() || ran_destroy
}

/// What blocks a Stack that is being deleted, with the way to delete it all the same.
pub(in crate::stack) fn with_way_out(case: &Case, class: &Class) -> Class {
    let metadata = &case.world.stack.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let way_out = |message: &str| {
        format!(
            "{message}; to delete the Stack without a destroy, which leaves its resources in place, run: \
             kubectl patch stack {name} -n {namespace} --type=merge -p '{{\"spec\":{{\"destroyOnFinalize\":false}}}}'"
        )
    };
    match class {
        _ if !case.world.is_deleting() => class.clone(),
        // It has a way out of its own: nothing can be made in that namespace.
        Class::Wait(StackReason::NamespaceTerminating, ..) | Class::Retry(..) => class.clone(),
        Class::Wait(reason, message, again) => Class::Wait(*reason, way_out(message), *again),
        Class::Stall(reason, message) => Class::Stall(*reason, way_out(message)),
    }
}

/// A destroy is owed, and nothing to run it in can be made any more. Upstream's users know this text.
pub(in crate::stack) fn namespace_terminating(case: &Case) -> Class {
    let metadata = &case.world.stack.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let last = case.status.last_update.as_ref();
    let permalink = last.and_then(|last| last.permalink.as_deref());
    let backend = permalink.unwrap_or("the Pulumi backend");
    let message = format!(
        "namespace \"{namespace}\" is terminating: a workspace cannot be created in it to run destroy, so the stack's \
         resources will NOT be deleted and need manual cleanup (see {backend}); then release the stack with \
         kubectl patch stack {name} -n {namespace} --type=merge -p '{{\"metadata\":{{\"finalizers\":[]}}}}'"
    );
    Class::Wait(StackReason::NamespaceTerminating, message, NAMESPACE_AGAIN)
}
