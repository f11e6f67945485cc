//! The finalizer that Stacks and their Updates have.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::names::finalizers;

/// Whether a Stack or an Update has the Stack's finalizer.
#[must_use]
pub fn has_stack_finalizer(metadata: &ObjectMeta) -> bool {
    let mut names = metadata.finalizers.iter().flatten();
    names.any(|name| name == finalizers::STACK)
}

/// Whether a deleted Stack no longer has the finalizer, so that it records nothing more.
#[must_use]
pub fn is_released(stack: &ObjectMeta) -> bool {
    stack.deletion_timestamp.is_some() && !has_stack_finalizer(stack)
}
