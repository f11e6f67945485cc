//! The prerequisites of a Stack.

use std::collections::{BTreeMap, VecDeque};

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{
    Decoded, Stack,
    names::{annotations, field_managers},
};
use pko_core::stack::{MAX_PREREQUISITES, Prerequisites, prerequisite_view};

use crate::controllers::{Context, ReconcileError};

/// All direct and indirect prerequisites, the nearest first, up to [`MAX_PREREQUISITES`]. Only a
/// live read proves that one does not exist.
pub(super) async fn reachable(
    stack: &Stack,
    context: &Context,
) -> Result<Prerequisites, ReconcileError> {
    let namespace = stack.namespace().unwrap_or_default();
    let mut found: Prerequisites = BTreeMap::new();
    let mut next: VecDeque<String> = names(stack).collect();
    while let Some(name) = next.pop_front() {
        if found.len() >= MAX_PREREQUISITES {
            break;
        }
        if found.contains_key(&name) {
            continue;
        }
        let other = find(context, &namespace, &name).await?;
        if let Ok(other) = &other {
            next.extend(names(other));
        }
        found.insert(name, other);
    }
    Ok(found)
}

fn names(stack: &Stack) -> impl Iterator<Item = String> {
    let wanted = stack.spec.prerequisites.iter();
    wanted.map(|wanted| wanted.name.clone())
}

async fn find(
    context: &Context,
    namespace: &str,
    name: &str,
) -> Result<Result<Stack, String>, ReconcileError> {
    let cached = context
        .caches
        .stacks
        .get(&ObjectRef::new(name).within(namespace));
    if let Some(cached) = cached {
        return Ok(view(&cached));
    }
    let live: Option<Decoded<Stack>> = pko_kube::find(&context.client, namespace, name).await?;
    Ok(live.as_ref().map_or_else(
        || Err(format!("stacks.pulumi.com \"{name}\" not found")),
        view,
    ))
}

fn view(stack: &Decoded<Stack>) -> Result<Stack, String> {
    let stack = stack.as_result().map_err(|bad| bad.error.to_string())?;
    Ok(prerequisite_view(stack))
}

/// Requests a reconcile of another Stack by an annotation.
pub(super) async fn request(
    context: &Context,
    other: &Stack,
    value: &str,
) -> Result<(), ReconcileError> {
    let annotation = (annotations::RECONCILIATION_REQUEST, value);
    let manager = field_managers::PREREQUISITE_REQUEST;
    pko_kube::apply_annotation(&context.client, other, annotation, manager).await?;
    Ok(())
}
