//! Field managers, one for each purpose. They are upstream's: with other names, fields that
//! upstream owns could not be removed.

/// Specs of Workspaces, Updates, StatefulSets and Services.
pub const OPERATOR: &str = "pulumi-kubernetes-operator";
/// A Stack's status.
pub const STACK_STATUS: &str = "pulumi-kubernetes-operator/stack-status";
/// The finalizer on an Update.
pub const STACK_FINALIZER: &str = "pulumi-kubernetes-operator/stack-finalizer";
/// The request annotation on another Stack that is a prerequisite.
pub const PREREQUISITE_REQUEST: &str = "pulumi-kubernetes-operator/prerequisite-request";
/// A Workspace's status.
pub const WORKSPACE_STATUS: &str = "pulumi-kubernetes-operator/workspace-status";
/// An Update's status.
pub const UPDATE_STATUS: &str = "pulumi-kubernetes-operator/update-status";
/// A Program's status.
pub const PROGRAM_STATUS: &str = "pulumi-kubernetes-operator/program-status";
