//! Images, without their tags.

/// The image of the manager, which also contains the agent for workspaces.
pub const OPERATOR: &str = "pulumi/pulumi-kubernetes-operator";
/// The image of the embedded engine, for workspaces.
pub const WORKSPACE: &str = "pulumi/pulumi-kubernetes-operator-workspace";
