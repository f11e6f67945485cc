//! Deletes the Updates that a Stack does not want kept.

use kube::ResourceExt as _;
use pko_api::{Stack, Update};
use pko_core::stack::updates_to_prune;

use crate::controllers::{Context, PassError};

/// Deletes what is superfluous as far as the cache knows; what it does not know yet goes after the next Update.
pub(super) async fn prune(stack: &Stack, context: &Context) -> Result<(), PassError> {
    let namespace = stack.namespace().unwrap_or_default();
    let all = context.updates.state();
    let readable = all.iter().filter_map(|update| update.as_result().ok());
    let neighbours = readable.filter(|update| update.namespace() == stack.namespace());
    for update in updates_to_prune(stack, neighbours) {
        let (name, uid) = (update.name_any(), update.uid());
        pko_kube::delete::<Update>(&context.client, &namespace, &name, uid).await?;
    }
    Ok(())
}
