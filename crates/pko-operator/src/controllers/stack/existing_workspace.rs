//! The Workspace of a Stack as it is, without a change.

use std::sync::Arc;

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{Decoded, Stack, Workspace};

use crate::controllers::{
    Context, PassError,
    context::{fresh, readable},
};

/// Finds the Workspace of this name. The cache is believed once it has seen our own last write;
/// absence is believed from the API server only. One that does not decode can't be used: it is as
/// good as absent.
pub(super) async fn find(
    stack: &Stack,
    context: &Context,
    name: &str,
) -> Result<Option<Box<Workspace>>, PassError> {
    let namespace = stack.namespace().unwrap_or_default();
    let cached = context
        .workspaces
        .get(&ObjectRef::new(name).within(&namespace));
    let found = if let Some(cached) = cached {
        fresh(cached, &context.workspaces, context).await?
    } else {
        let live: Option<Decoded<Workspace>> =
            pko_kube::find(&context.client, &namespace, name).await?;
        live.map(Arc::new)
    };
    let found = found.as_deref().and_then(readable);
    Ok(found.cloned().map(Box::new))
}
