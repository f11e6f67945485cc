//! The prerequisites of a Stack.

use std::collections::BTreeMap;

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{
    Decoded, Stack,
    names::{annotations, field_managers},
};
use pko_core::stack::Prerequisites;

use crate::controllers::{Context, ReconcileError};

/// All direct and indirect prerequisites. Only a live read proves that one does not exist.
pub(super) async fn reachable(
    stack: &Stack,
    context: &Context,
) -> Result<Prerequisites, ReconcileError> {
    let namespace = stack.namespace().unwrap_or_default();
    let mut found: Prerequisites = BTreeMap::new();
    let mut next = names(stack);
    while let Some(name) = next.pop() {
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

fn names(stack: &Stack) -> Vec<String> {
    let wanted = stack.spec.prerequisites.iter();
    wanted.map(|wanted| wanted.name.clone()).collect()
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
    let object = match cached {
        Some(cached) => Some(cached.as_ref().clone()),
        None => pko_kube::find::<Decoded<Stack>>(&context.client, namespace, name).await?,
    };
    let Some(object) = object else {
        return Ok(Err(format!("stacks.pulumi.com \"{name}\" not found")));
    };
    let readable = object.as_result().cloned();
    Ok(readable.map_err(|bad| bad.error.to_string()))
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
