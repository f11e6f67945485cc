//! The reasons in conditions. Dashboards, `kubectl wait` and Argo CD's health checks match on them.

use crate::text::text_enum;

text_enum! {
    /// Reasons in a Stack's conditions.
    StackReason {
        /// Ready: up to date.
        ProcessingCompleted = "ProcessingCompleted",
        /// Ready, or Stalled if it never was Ready: no run starts while `spec.suspend` is true.
        Suspended = "Suspended",
        /// Not ready: see the condition Reconciling.
        NotReadyInProgress = "NotReadyInProgress",
        /// Not ready: see the condition Stalled.
        NotReadyStalled = "NotReadyStalled",
        /// Reconciling: waiting for the workspace or for an Update.
        StackProcessing = "StackProcessing",
        /// Reconciling: the last Update failed and will be retried.
        RetryingAfterFailure = "RetryingAfterFailure",
        /// Reconciling: the last preview failed and will be retried.
        PreviewFailed = "PreviewFailed",
        /// Reconciling: a prerequisite is not ready.
        PrerequisiteNotSatisfied = "PrerequisiteNotSatisfied",
        /// Stalled: the spec is invalid.
        SpecInvalid = "SpecInvalid",
        /// Stalled: the source cannot be read. Ready: it could not be read for a short time.
        SourceUnavailable = "SourceUnavailable",
        /// Stalled: the workspace reports a failure.
        WorkspaceFailed = "WorkspaceFailed",
        /// Stalled: the workspace's Pulumi CLI is too old for this config.
        PulumiVersionTooLow = "PulumiVersionTooLow",
        /// Stalled: the last Update failed too often.
        UpdateFailed = "UpdateFailed",
        /// Stalled: another update has locked the stack.
        UpdateConflict = "UpdateConflict",
        /// Stalled: a destroy is required, but the terminating namespace accepts no new objects.
        NamespaceTerminating = "NamespaceTerminating",
    }
}

text_enum! {
    /// Reasons in a Workspace's conditions. If the agent responds with a gRPC error, its code
    /// (`Unauthenticated`, …) may be the reason.
    WorkspaceReason {
        /// The Workspace is being deleted.
        Deleting = "Deleting",
        /// The pod is being replaced.
        RollingUpdate = "RollingUpdate",
        /// The pod is not available.
        WaitingForReplicas = "WaitingForReplicas",
        /// The agent does not respond.
        ConnectionFailed = "ConnectionFailed",
        /// The config needs a newer Pulumi CLI.
        IncompatibleConfiguration = "IncompatibleConfiguration",
        /// Packages and plugins are being installed.
        Installing = "Installing",
        /// Packages and plugins could not be installed.
        InstallationFailed = "InstallationFailed",
        /// The stacks are being selected and configured.
        Initializing = "Initializing",
        /// The stacks could not be selected or configured.
        InitializationFailed = "InitializationFailed",
        /// Ready for Updates.
        Succeeded = "Succeeded",
        /// Ready, in a pod of another version of the operator; the next run gets a new pod.
        Outdated = "Outdated",
        /// Ready, scaled to zero until the next run.
        Idle = "Idle",
    }
}

text_enum! {
    /// Reasons in an Update's conditions.
    UpdateReason {
        /// The operation is running.
        Progressing = "Progressing",
        /// The operation has ended.
        Complete = "Complete",
        /// The result is stored.
        Updated = "Updated",
        /// The operation succeeded.
        UpdateSucceeded = "UpdateSucceeded",
        /// The operation failed.
        UpdateFailed = "UpdateFailed",
        /// The Update ended before its operation did.
        Failed = "Failed",
        /// The operation was interrupted, and its result is unknown.
        Aborted = "Aborted",
        /// The Update was canceled, was deleted, or lost its owner.
        Canceled = "Canceled",
        /// The Workspace does not exist (yet).
        WorkspaceNotFound = "WorkspaceNotFound",
        /// The Workspace is not ready (yet).
        WorkspaceNotReady = "WorkspaceNotReady",
        /// Other runs are ahead in the run queue.
        Queued = "Queued",
        /// The agent does not respond; retried.
        TransientFailure = "TransientFailure",
        /// The operation failed for an unclassified reason.
        Unknown = "Unknown",
        /// Another update has locked the stack.
        UpdateConflict = "UpdateConflict",
        /// Pulumi Cloud rejected the access token.
        InvalidAccessToken = "InvalidAccessToken",
    }
}

text_enum! {
    /// Reasons in a Program's conditions.
    ProgramReason {
        /// Ready: the archive is served, and the check found no problem.
        Published = "Published",
        /// Stalled: Pulumi rejects the program. Its archive is still served.
        ProgramInvalid = "ProgramInvalid",
        /// Stalled: the archive could not be built.
        ArchiveFailed = "ArchiveFailed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A subset of the syntax that the API server requires.
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
