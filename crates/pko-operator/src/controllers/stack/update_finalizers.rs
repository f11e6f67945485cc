//! The finalizer by which a Stack holds its Updates until it has read their results.

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{Stack, Update, names::finalizers};
use pko_core::finalizers::has_stack_finalizer;

use super::belongs_to;
use crate::controllers::{Context, ReconcileError};

/// The Updates in the cache that are held although they are not current: the last one, or all if
/// the Stack is being deleted.
pub(super) fn unreleased(stack: &Stack, context: &Context) -> Vec<String> {
    let namespace = stack.namespace().unwrap_or_default();
    let status = stack.status.as_ref();
    let current = status.and_then(|status| status.current_update.as_ref());
    let current = current.and_then(|current| current.name.as_ref());
    let last = status.and_then(|status| status.last_update.as_ref());
    let last = last.and_then(|last| last.name.as_ref());
    let known = if stack.metadata.deletion_timestamp.is_some() {
        context.caches.updates.state()
    } else {
        let last = last.map(|name| ObjectRef::new(name).within(&namespace));
        let last = last.and_then(|last| context.caches.updates.get(&last));
        last.into_iter().collect()
    };
    let held = known.iter().filter_map(|update| update.as_result().ok());
    held.filter(|update| {
        belongs_to(&update.metadata, stack) && has_stack_finalizer(&update.metadata)
    })
    .filter(|update| !context.memory.own_writes.is_stale(*update))
    .map(Update::name_any)
    .filter(|name| current != Some(name))
    .collect()
}

/// Removes the finalizer, if the Update still has it.
pub(super) async fn release(context: &Context, update: &Update) -> Result<(), ReconcileError> {
    let finalizer = finalizers::STACK;
    let released = pko_kube::remove_finalizer(&context.client, update, finalizer).await?;
    if let Some(released) = released {
        context.memory.own_writes.record(&released);
    }
    Ok(())
}
