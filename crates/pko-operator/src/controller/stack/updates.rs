//! The Updates of a Stack that its finalizer holds.

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{Stack, Update, names::finalizers};

use crate::controller::{Context, PassError};

/// The Updates that are held although they are not current, as the cache knows them: the last one, and of a Stack that goes
/// all.
pub(super) fn unreleased(stack: &Stack, context: &Context) -> Vec<String> {
    let namespace = stack.namespace().unwrap_or_default();
    let status = stack.status.clone().unwrap_or_default();
    let current = status.current_update.and_then(|current| current.name);
    let last = status.last_update.and_then(|last| last.name);
    let known = if stack.metadata.deletion_timestamp.is_some() {
        context.updates.state()
    } else {
        let last = last.map(|name| ObjectRef::new(&name).within(&namespace));
        let last = last.and_then(|last| context.updates.get(&last));
        last.into_iter().collect()
    };
    let held = known.iter().filter_map(|update| update.as_result().ok());
    held.filter(|update| belongs_to(update, stack) && is_held(update))
        .filter(|update| !context.written.is_stale(*update))
        .map(Update::name_any)
        .filter(|name| current.as_ref() != Some(name))
        .collect()
}

fn belongs_to(update: &Update, stack: &Stack) -> bool {
    let mut owners = update.owner_references().iter();
    owners.any(|owner| Some(&owner.uid) == stack.metadata.uid.as_ref())
}

fn is_held(update: &Update) -> bool {
    let mut names = update.finalizers().iter();
    names.any(|name| name == finalizers::STACK)
}

/// Lets an Update go; one that is gone or free is left alone.
pub(super) async fn release(context: &Context, update: &Update) -> Result<(), PassError> {
    let finalizer = finalizers::STACK;
    let released = pko_kube::remove_finalizer(&context.client, update, finalizer).await?;
    if let Some(released) = released {
        context.written.remember(&released);
    }
    Ok(())
}
