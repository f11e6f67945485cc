//! The Workspace of a Stack, unchanged.

use std::sync::Arc;

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{Decoded, Stack, Workspace};

use crate::controllers::{
    Context, ReconcileError,
    context::{decoded, latest},
};

/// Finds the Workspace of this name in the cache once that has our own last write. Only a live read
/// proves its absence. One that does not decode counts as absent.
pub(super) async fn find(
    stack: &Stack,
    context: &Context,
    name: &str,
) -> Result<Option<Box<Workspace>>, ReconcileError> {
    let namespace = stack.namespace().unwrap_or_default();
    let cached = context
        .caches
        .workspaces
        .get(&ObjectRef::new(name).within(&namespace));
    let found = if let Some(cached) = cached {
        latest(cached, &context.caches.workspaces, context).await?
    } else {
        let live: Option<Decoded<Workspace>> =
            pko_kube::find(&context.client, &namespace, name).await?;
        live.map(Arc::new)
    };
    let found = found.as_deref().and_then(decoded);
    Ok(found.cloned().map(Box::new))
}
