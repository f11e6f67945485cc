//! Finalizers that the operator sets.

/// On a Stack until its destroy, if any, has succeeded; on the Update whose result a Stack awaits.
pub const STACK: &str = "finalizer.stack.pulumi.com";
