//! Ends of a pass that several rules share.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pko_api::{auto::v1alpha1::OperationType, names::reasons::StackReason};

use super::{
    SourceError, SourceRef, StackEffect, StackEvaluation, StackStep,
    facts::{existing_workspace::NO_WORKSPACE, source::NoSource},
};
use crate::{
    Blocked,
    condition_set::Summary,
    step::{Requeue, finish},
};

/// For what is missing and not watched, such as a Secret; events of other objects end the wait
/// earlier.
const MISSING_AGAIN: Duration = Duration::from_secs(30);
/// For a source that is being fetched, which triggers the Stack when it arrives.
const PENDING_AGAIN: Duration = Duration::from_secs(30);
/// How long a Stack stays up to date while its source does not respond.
const STALE_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// How soon a terminating namespace is tried again.
const NAMESPACE_AGAIN: Duration = Duration::from_secs(30);

/// The summary of a Stack whose Update is created or runs.
pub(super) fn processing() -> Summary {
    Summary::Reconciling(
        StackReason::StackProcessing,
        "stack is being processed".to_owned(),
    )
}

impl StackEvaluation {
    /// Removes our finalizer, with the last result in the status: another finalizer may keep the
    /// Stack visible. A Workspace that may have no owner is deleted first.
    pub(super) fn release(&self) -> StackStep {
        let mut status = self.status_with(&Summary::Ready);
        let current = status.current_update.take();
        let current = current.and_then(|current| current.name);
        let workspace = self
            .is_workspace_ownerless()
            .then_some(StackEffect::DeleteWorkspace);
        let updates = self.release_last_update().into_iter();
        let updates = updates.chain(current.map(StackEffect::ReleaseUpdate));
        let effects = updates.chain(workspace);
        self.plan(
            status,
            effects.chain([StackEffect::RemoveFinalizer]),
            None,
            Requeue::Settled,
        )
    }

    /// Whether the Workspace may have been created without an owner, during a deletion in the
    /// foreground. The garbage collector waits only for what it has seen, so its finalizer may be
    /// gone by now.
    fn is_workspace_ownerless(&self) -> bool {
        let last = self.status.last_update.as_ref();
        let ran_destroy = last.is_some_and(|last| last.operation == Some(OperationType::Destroy));
        self.observed.is_deleted_in_foreground() || ran_destroy
    }

    /// What blocks the Stack; for a deletion, with the command that skips the destroy.
    pub(super) fn add_way_out(&self, blocked: &Blocked) -> Blocked {
        let (name, namespace) = self.name_and_namespace();
        let way_out = |message: &str| {
            format!(
                "{message}; to delete the Stack without a destroy, which leaves its resources in \
                 place, run: kubectl patch stack {name} -n {namespace} --type=merge \
                 -p '{{\"spec\":{{\"destroyOnFinalize\":false}}}}'"
            )
        };
        match blocked {
            _ if !self.observed.is_deleting() => blocked.clone(),
            // This message has a way out of its own: nothing can be created in that namespace.
            Blocked::OnDependency(StackReason::NamespaceTerminating, ..)
            | Blocked::Transient(..) => blocked.clone(),
            Blocked::OnDependency(reason, message, again) => {
                Blocked::OnDependency(*reason, way_out(message), *again)
            }
            Blocked::OnUser(reason, message) => Blocked::OnUser(*reason, way_out(message)),
        }
    }

    /// A destroy is needed, and its namespace accepts no Workspace any more. Upstream's users match
    /// on this text.
    pub(super) fn namespace_terminating(&self) -> Blocked {
        let (name, namespace) = self.name_and_namespace();
        let last = self.status.last_update.as_ref();
        let permalink = last.and_then(|last| last.permalink.as_deref());
        let backend = permalink.unwrap_or("the Pulumi backend");
        let message = format!(
            "namespace \"{namespace}\" is terminating: a workspace cannot be created in it to run \
             destroy, so the stack's resources will NOT be deleted and need manual cleanup (see \
             {backend}); then release the stack with kubectl patch stack {name} -n {namespace} \
             --type=merge -p '{{\"metadata\":{{\"finalizers\":[]}}}}'"
        );
        Blocked::OnDependency(StackReason::NamespaceTerminating, message, NAMESPACE_AGAIN)
    }

    fn name_and_namespace(&self) -> (&str, &str) {
        let metadata = &self.observed.stack.metadata;
        let name = metadata.name.as_deref().unwrap_or_default();
        (name, metadata.namespace.as_deref().unwrap_or_default())
    }

    /// Waits for a ConfigMap or Secret that does not exist.
    pub(super) fn wait_for_inputs(&self, problem: String) -> StackStep {
        self.reject_spec_for_now(problem, MISSING_AGAIN)
    }

    /// Waits for a source, or requests it.
    pub(super) fn wait_for_source(&self, problem: NoSource) -> StackStep {
        let unavailable =
            |message| Blocked::OnDependency(StackReason::SourceUnavailable, message, MISSING_AGAIN);
        let error = match problem {
            NoSource::Unread(read) => return read,
            NoSource::Invalid(message) => return self.reject_spec(message),
            NoSource::Failed(error) => error,
        };
        match error {
            // A change outside the spec can repair this: a new Secret, a renamed repository.
            SourceError::Invalid(message) => self.reject_spec_for_now(message, MISSING_AGAIN),
            SourceError::Unavailable(message) => {
                self.block(&unavailable(self.add_source_of_destroy(message)))
            }
            SourceError::Unreachable { since, message } => self
                .stay_ready_without_source(since, &message)
                .unwrap_or_else(|| self.block(&unavailable(message))),
            // A manager that has just started has no source yet. The stored status stays meanwhile.
            SourceError::Pending(_) if self.is_status_current() => {
                finish(Vec::new(), Requeue::after(PENDING_AGAIN))
            }
            SourceError::Pending(message) => self.block(&Blocked::Transient(
                StackReason::StackProcessing,
                message,
                PENDING_AGAIN,
            )),
        }
    }

    /// The step of a Stack that was up to date when its source last responded, not long ago.
    fn stay_ready_without_source(&self, since: Timestamp, message: &str) -> Option<StackStep> {
        let fresh_until = since.saturating_add(STALE_AFTER).unwrap_or(since);
        if !self.was_up_to_date() || self.now >= fresh_until {
            return None;
        }
        let message = format!(
            "the stack was up to date when its source last responded; it has not responded since \
             {since:.0}: {message}"
        );
        let summary = Summary::ReadyBut(StackReason::SourceUnavailable, message);
        let left = self.now.duration_until(fresh_until).unsigned_abs();
        Some(self.wait(&summary, Requeue::after(left.min(MISSING_AGAIN))))
    }

    /// The message; for a deletion, with the object that its destroy needs.
    fn add_source_of_destroy(&self, message: String) -> String {
        let object = match SourceRef::of(&self.observed.stack) {
            Ok(Some(SourceRef::Program(name))) => format!("Program \"{name}\""),
            Ok(Some(SourceRef::Flux(flux))) => format!("{} \"{}\"", flux.kind, flux.name),
            _ => return message,
        };
        if !self.observed.is_deleting() {
            return message;
        }
        format!("{message}; {NO_WORKSPACE}: re-create or repair {object}")
    }

    /// Whether the stored status is about the current spec and request, with nothing to add.
    fn is_status_current(&self) -> bool {
        let request = self.status.observed_reconcile_request.as_deref();
        self.finished.is_none()
            && !self.status.conditions.is_empty()
            && self.status.observed_generation == Some(self.observed.generation())
            && request.unwrap_or_default() == self.observed.request()
    }
}
