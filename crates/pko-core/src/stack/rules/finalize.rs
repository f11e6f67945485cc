//! The beginning and the end of a Stack: its finalizer.

use std::time::Duration;

use pko_api::{auto::v1alpha1::OperationType, names::reasons::StackReason};

use crate::{
    Blocked,
    condition_set::Summary,
    finalizers::{has_stack_finalizer, is_released},
    stack::{StackEffect, StackEvaluation, StackStep},
    step::{Requeue, finish},
};

/// How soon a Stack that was just adopted is looked at, if the write's own event does not come.
const AFTER_ADOPTION: Duration = Duration::from_secs(1);
/// How soon it is tried again in a namespace that goes.
const NAMESPACE_AGAIN: Duration = Duration::from_secs(30);

/// A Stack that is being deleted and that we have let go is somebody else's.
pub(in crate::stack) fn already_released(evaluation: &StackEvaluation) -> Option<StackStep> {
    is_released(&evaluation.observed.stack.metadata).then(|| finish(Vec::new(), Requeue::Settled))
}

/// A new Stack gets our finalizer before anything is made for it.
pub(in crate::stack) fn add_finalizer(evaluation: &StackEvaluation) -> Option<StackStep> {
    let new = !has_stack_finalizer(&evaluation.observed.stack.metadata);
    new.then(|| {
        finish(
            vec![StackEffect::AddFinalizer],
            Requeue::after(AFTER_ADOPTION),
        )
    })
}

/// A Stack that owes no destroy goes at once.
pub(in crate::stack) fn release_without_destroy(evaluation: &StackEvaluation) -> Option<StackStep> {
    let free = evaluation.observed.is_deleting() && !evaluation.observed.owes_destroy();
    free.then(|| release(evaluation))
}

/// Lets the Stack go, with the last result recorded: others may hold it still, and see it. A Workspace that may not belong
/// to it goes first.
pub(in crate::stack) fn release(evaluation: &StackEvaluation) -> StackStep {
    let mut status = evaluation.summarised(&Summary::Ready);
    let current = status.current_update.take();
    let current = current.and_then(|current| current.name);
    let workspace = is_workspace_nobodys(evaluation).then_some(StackEffect::DeleteWorkspace);
    let updates = evaluation.release_again().into_iter();
    let updates = updates.chain(current.map(StackEffect::ReleaseUpdate));
    let deeds = updates.chain(workspace);
    evaluation.plan(
        status,
        deeds.chain([StackEffect::RemoveFinalizer]),
        None,
        Requeue::Settled,
    )
}

/// Whether the Workspace may have been made during a deletion in the foreground, so that nobody else would take it away. The
/// garbage collector, which waits for what it has seen only, may have let the Stack go since.
fn is_workspace_nobodys(evaluation: &StackEvaluation) -> bool {
    let last = evaluation.status.last_update.as_ref();
    let ran_destroy = last.is_some_and(|last| last.operation == Some(OperationType::Destroy));
    evaluation.observed.is_deleted_in_foreground() || ran_destroy
}

/// What blocks a Stack that is being deleted, with the way to delete it all the same.
pub(in crate::stack) fn with_way_out(evaluation: &StackEvaluation, blocked: &Blocked) -> Blocked {
    let metadata = &evaluation.observed.stack.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let way_out = |message: &str| {
        format!(
            "{message}; to delete the Stack without a destroy, which leaves its resources in place, run: \
             kubectl patch stack {name} -n {namespace} --type=merge -p '{{\"spec\":{{\"destroyOnFinalize\":false}}}}'"
        )
    };
    match blocked {
        _ if !evaluation.observed.is_deleting() => blocked.clone(),
        // It has a way out of its own: nothing can be made in that namespace.
        Blocked::OnDependency(StackReason::NamespaceTerminating, ..) | Blocked::Transient(..) => {
            blocked.clone()
        }
        Blocked::OnDependency(reason, message, again) => {
            Blocked::OnDependency(*reason, way_out(message), *again)
        }
        Blocked::OnUser(reason, message) => Blocked::OnUser(*reason, way_out(message)),
    }
}

/// A destroy is owed, and nothing to run it in can be made any more. Upstream's users know this text.
pub(in crate::stack) fn namespace_terminating(evaluation: &StackEvaluation) -> Blocked {
    let metadata = &evaluation.observed.stack.metadata;
    let name = metadata.name.as_deref().unwrap_or_default();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let last = evaluation.status.last_update.as_ref();
    let permalink = last.and_then(|last| last.permalink.as_deref());
    let backend = permalink.unwrap_or("the Pulumi backend");
    let message = format!(
        "namespace \"{namespace}\" is terminating: a workspace cannot be created in it to run destroy, so the stack's \
         resources will NOT be deleted and need manual cleanup (see {backend}); then release the stack with \
         kubectl patch stack {name} -n {namespace} --type=merge -p '{{\"metadata\":{{\"finalizers\":[]}}}}'"
    );
    Blocked::OnDependency(StackReason::NamespaceTerminating, message, NAMESPACE_AGAIN)
}
