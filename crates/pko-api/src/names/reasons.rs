//! The reasons in conditions. Dashboards, `kubectl wait` and Argo CD's health checks match on them.

use crate::text::text_enum;

text_enum! {
    /// Reasons in a Stack's conditions.
    StackReason {
        /// Ready: up to date.
        ProcessingCompleted = "ProcessingCompleted",
        /// Ready, or stalled where it never was: no run is started until it goes on.
        Suspended = "Suspended",
        /// Not ready: see the condition Reconciling.
        NotReadyInProgress = "NotReadyInProgress",
        /// Not ready: see the condition Stalled.
        NotReadyStalled = "NotReadyStalled",
        /// Reconciling: waiting for the workspace or for an Update.
        StackProcessing = "StackProcessing",
        /// Reconciling: the last Update failed and will be tried again.
        RetryingAfterFailure = "RetryingAfterFailure",
        /// Reconciling: the last preview failed and will be tried again.
        PreviewFailed = "PreviewFailed",
        /// Reconciling: another Stack has to be ready first.
        PrerequisiteNotSatisfied = "PrerequisiteNotSatisfied",
        /// Stalled: the spec can't be carried out as it is.
        SpecInvalid = "SpecInvalid",
        /// Stalled: the program can't be read from where it is. Ready: it could not be for a short time.
        SourceUnavailable = "SourceUnavailable",
        /// Stalled: the workspace reports a failure.
        WorkspaceFailed = "WorkspaceFailed",
        /// Stalled: the workspace's Pulumi CLI is too old for this config.
        PulumiVersionTooLow = "PulumiVersionTooLow",
        /// Stalled: the last Update failed too often.
        UpdateFailed = "UpdateFailed",
        /// Stalled: another update holds the stack.
        UpdateConflict = "UpdateConflict",
        /// Stalled: a destroy is owed and the namespace takes no new objects.
        NamespaceTerminating = "NamespaceTerminating",
    }
}

text_enum! {
    /// Reasons in a Workspace's conditions. The name of a gRPC code (`Unauthenticated`, …) may stand in
    /// their place when the agent answered with one.
    WorkspaceReason {
        /// The Workspace is being deleted.
        Deleting = "Deleting",
        /// Its pod is being replaced.
        RollingUpdate = "RollingUpdate",
        /// Its pod is not available.
        WaitingForReplicas = "WaitingForReplicas",
        /// The agent does not answer.
        ConnectionFailed = "ConnectionFailed",
        /// The config needs a newer Pulumi CLI.
        IncompatibleConfiguration = "IncompatibleConfiguration",
        /// Packages and plugins are being installed.
        Installing = "Installing",
        /// They could not be installed.
        InstallationFailed = "InstallationFailed",
        /// The stacks are being selected and configured.
        Initializing = "Initializing",
        /// They could not be.
        InitializationFailed = "InitializationFailed",
        /// Ready for Updates.
        Succeeded = "Succeeded",
        /// Ready, in a pod of an operator of before; the next run gets a new one.
        Outdated = "Outdated",
        /// Ready, without a pod; the next run gets one.
        Idle = "Idle",
    }
}

text_enum! {
    /// Reasons in an Update's conditions.
    UpdateReason {
        /// The operation runs.
        Progressing = "Progressing",
        /// The operation has ended, in whatever way.
        Complete = "Complete",
        /// The result is recorded.
        Updated = "Updated",
        /// The operation succeeded.
        UpdateSucceeded = "UpdateSucceeded",
        /// The operation failed.
        UpdateFailed = "UpdateFailed",
        /// The Update ended before its operation did.
        Failed = "Failed",
        /// The operation was cut off.
        Aborted = "Aborted",
        /// The Update was deleted or lost its owner before it began.
        Canceled = "Canceled",
        /// There is no such Workspace (yet).
        WorkspaceNotFound = "WorkspaceNotFound",
        /// The Workspace is not ready (yet).
        WorkspaceNotReady = "WorkspaceNotReady",
        /// Other runs go first.
        Queued = "Queued",
        /// The agent does not answer; tried again.
        TransientFailure = "TransientFailure",
        /// The operation failed in a way that has no name.
        Unknown = "Unknown",
        /// Another update holds the stack.
        UpdateConflict = "UpdateConflict",
        /// Pulumi Cloud refused the access token.
        InvalidAccessToken = "InvalidAccessToken",
    }
}

text_enum! {
    /// Reasons in a Program's conditions.
    ProgramReason {
        /// Ready: its archive is served, and nothing in it is known to be wrong.
        Published = "Published",
        /// Stalled: Pulumi refuses the program. Its archive is served all the same.
        ProgramInvalid = "ProgramInvalid",
        /// Stalled: no archive could be made of it.
        ArchiveFailed = "ArchiveFailed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The API server's rule for a condition's reason.
    fn is_reason(text: &str) -> bool {
        text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text
                .chars()
                .all(|character| character.is_ascii_alphanumeric())
    }

    #[test]
    fn reasons_are_valid_condition_reasons() {
        let texts = StackReason::ALL.iter().map(|reason| reason.as_str());
        let texts = texts.chain(WorkspaceReason::ALL.iter().map(|reason| reason.as_str()));
        let texts = texts.chain(UpdateReason::ALL.iter().map(|reason| reason.as_str()));
        let texts = texts.chain(ProgramReason::ALL.iter().map(|reason| reason.as_str()));
        for text in texts {
            assert!(is_reason(text), "{text}");
        }
    }
}
