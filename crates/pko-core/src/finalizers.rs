//! The finalizer of Stacks and their Updates.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pko_api::names::finalizers;

#[must_use]
pub fn has_stack_finalizer(metadata: &ObjectMeta) -> bool {
    let mut names = metadata.finalizers.iter().flatten();
    names.any(|name| name == finalizers::STACK)
}

/// Whether a deleted Stack has lost the finalizer, so that nothing awaits its objects.
#[must_use]
pub fn is_released(stack: &ObjectMeta) -> bool {
    stack.deletion_timestamp.is_some() && !has_stack_finalizer(stack)
}
