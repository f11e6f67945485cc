//! The reasons of events, and the components that report them.

use crate::text::text_enum;

/// The component in events about Stacks, and the controller's name in metrics.
pub const STACK_CONTROLLER: &str = "stack-controller";
/// The component in events about Workspaces.
pub const WORKSPACE_CONTROLLER: &str = "workspace-controller";
/// The component in events about Updates.
pub const UPDATE_CONTROLLER: &str = "update-controller";
/// The component in events about Programs.
pub const PROGRAM_CONTROLLER: &str = "program-controller";

text_enum! {
    /// Events on a Stack.
    StackEvent {
        /// Normal: an update is needed, and why.
        StackUpdateDetected = "StackUpdateDetected",
        /// Normal: an Update other than a destroy succeeded.
        StackCreated = "StackCreated",
        /// Warning: an Update failed.
        StackUpdateFailure = "StackUpdateFailure",
        /// Warning: the spec is invalid.
        StackConfigInvalid = "StackConfigInvalid",
        /// Normal: the Workspace was deleted by the reclaim policy.
        WorkspaceDeleted = "WorkspaceDeleted",
        /// Warning: the stack could not be selected or created.
        StackInitializationFailure = "StackInitializationFailure",
        /// Warning: the git server rejected the credentials.
        StackGitAuthenticationFailure = "StackGitAuthenticationFailure",
        /// Warning: another update has locked the stack.
        StackUpdateConflictDetected = "StackUpdateConflictDetected",
        /// Warning: the outputs could not be read.
        StackOutputRetrievalFailure = "StackOutputRetrievalFailure",
        /// Warning: the stack is not in its backend.
        StackNotFound = "StackNotFound",
        /// Normal: a destroy succeeded.
        StackDestroyed = "StackDestroyed",
    }
}

text_enum! {
    /// Events on a Workspace.
    WorkspaceEvent {
        /// Warning: the StatefulSet was replaced.
        Migrated = "Migrated",
        /// Warning: the agent does not respond.
        ConnectionFailure = "ConnectionFailure",
        /// Warning: packages or plugins could not be installed.
        InstallationFailure = "InstallationFailure",
        /// Warning: a stack could not be selected or configured.
        StackInitializationFailure = "StackInitializationFailure",
        /// Normal: the workspace is ready for Updates.
        Initialized = "Initialized",
    }
}

text_enum! {
    /// Events on an Update.
    UpdateEvent {
        /// Normal: the operation succeeded.
        UpdateSucceeded = "UpdateSucceeded",
        /// Warning: the operation failed.
        UpdateFailed = "UpdateFailed",
        /// Normal: the Update's time to live has passed.
        UpdateExpired = "UpdateExpired",
    }
}

text_enum! {
    /// Events on a Program.
    ProgramEvent {
        /// Warning: Pulumi rejects the program, or the archive cannot be built.
        ProgramInvalid = "ProgramInvalid",
    }
}
