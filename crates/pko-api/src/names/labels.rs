//! Labels on the objects that the operator makes.

/// On Workspaces and Updates of a Stack; the value is [`STACK_COMPONENT`].
pub const STACK_COMPONENT_KEY: &str = "pulumi.com/component";
/// The value of [`STACK_COMPONENT_KEY`].
pub const STACK_COMPONENT: &str = "stack";
/// On Workspaces and Updates of a Stack: its name.
pub const STACK_NAME: &str = "pulumi.com/stack-name";

/// On what belongs to a Workspace or an Update; the values are [`WORKSPACE_COMPONENT`] and
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
