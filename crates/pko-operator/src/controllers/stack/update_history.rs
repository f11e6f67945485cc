//! Prunes Updates that a Stack's history limits don't keep.

use kube::ResourceExt as _;
use pko_api::{Stack, Update};
use pko_core::stack::updates_to_prune;

use crate::controllers::{Context, ReconcileError};

/// Prunes the Updates in the cache. One that is not there yet is pruned after the next Update.
pub(super) async fn prune(stack: &Stack, context: &Context) -> Result<(), ReconcileError> {
    let namespace = stack.namespace().unwrap_or_default();
    let all = context.caches.updates.state();
    let readable = all.iter().filter_map(|update| update.as_result().ok());
    let neighbours = readable.filter(|update| update.namespace() == stack.namespace());
    for update in updates_to_prune(stack, neighbours) {
        let (name, uid) = (update.name_any(), update.uid());
        pko_kube::delete::<Update>(&context.client, &namespace, &name, uid).await?;
    }
    Ok(())
}
