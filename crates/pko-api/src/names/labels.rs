//! Labels on the objects that the operator creates.

/// On Workspaces and Updates of a Stack, and on the stored generations of a Program. The values are
/// [`STACK_COMPONENT`] and [`PROGRAM_COMPONENT`].
pub const STACK_COMPONENT_KEY: &str = "pulumi.com/component";
/// The value of [`STACK_COMPONENT_KEY`] on objects of a Stack.
pub const STACK_COMPONENT: &str = "stack";
/// The value of [`STACK_COMPONENT_KEY`] on objects of a Program.
pub const PROGRAM_COMPONENT: &str = "program";
/// On the stored generations of a Program: its name.
pub const PROGRAM_NAME: &str = "pulumi.com/program-name";
/// On Workspaces and Updates of a Stack: its name.
pub const STACK_NAME: &str = "pulumi.com/stack-name";

/// On objects of a Workspace or an Update. The values are [`WORKSPACE_COMPONENT`] and
/// [`UPDATE_COMPONENT`].
pub const AUTO_COMPONENT_KEY: &str = "auto.pulumi.com/component";
/// The value of [`AUTO_COMPONENT_KEY`] on a Workspace's StatefulSet, Service and pod.
pub const WORKSPACE_COMPONENT: &str = "workspace";
/// The value of [`AUTO_COMPONENT_KEY`] on an Update's outputs Secret.
pub const UPDATE_COMPONENT: &str = "update";
/// On a Workspace's StatefulSet, Service and pod: the Workspace's name.
pub const WORKSPACE_NAME: &str = "auto.pulumi.com/workspace-name";
/// On an outputs Secret: the Update's name.
pub const UPDATE_NAME: &str = "auto.pulumi.com/update-name";
