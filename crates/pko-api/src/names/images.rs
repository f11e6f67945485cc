//! Images, without their tags.

/// The manager, and the agent that workspaces get from it.
pub const OPERATOR: &str = "pulumi/pulumi-kubernetes-operator";
/// The embedded engine, for workspaces.
pub const WORKSPACE: &str = "pulumi/pulumi-kubernetes-operator-workspace";
