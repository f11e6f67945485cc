//! Finalizers that the operator sets.

/// On a Stack until its destroy is done or none is owed, and on the Update that a Stack waits for.
pub const STACK: &str = "finalizer.stack.pulumi.com";
