//! The revision of a repository that a Stack follows.
//!
//! | event | action |
//! |---|---|
//! | the same revision is requested | the last answer counts, and the poller keeps it up to date |
//! | another repository, branch or credential | subscribe; another Stack may have the answer already |
//! | the spec or a reconcile request has changed | ask the server now |
//! | `commit` is a name, and it is resolved | unsubscribe; the answer counts for one interval |

use std::time::Duration;

use kube::{ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{
    Decoded, Stack,
    names::annotations::{FLUX_REQUESTED_AT, RECONCILIATION_REQUEST},
};
use pko_core::stack::SourceError;
use pko_source::{
    git::{CommitId, Revision},
    poll::{
        Blocking, GitLister, GitRepository, ListError, PollError, PollFailure, PollStatus, Poller,
        Subscription,
    },
};
use tokio::{sync::watch, time::Instant};

use crate::{sources::AbortOnDrop, watch::StackTrigger};

type GitStatus = PollStatus<CommitId, ListError>;
pub(super) type Receiver = watch::Receiver<GitStatus>;

#[derive(PartialEq, Eq)]
pub(super) struct GitQuery {
    pub(super) repository: GitRepository,
    pub(super) revision: Revision,
    pub(super) interval: Duration,
    /// Resolve once instead of following.
    pub(super) once: bool,
}

/// What makes a Stack read its source now: a new spec, or a new request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReadTrigger {
    uid: Option<String>,
    generation: Option<i64>,
    requests: [Option<String>; 2],
}

impl ReadTrigger {
    pub(super) fn of(stack: &Stack) -> Self {
        let request = |key| stack.annotations().get(key).cloned();
        Self {
            uid: stack.uid(),
            generation: stack.metadata.generation,
            requests: [request(RECONCILIATION_REQUEST), request(FLUX_REQUESTED_AT)],
        }
    }
}

/// Unsubscribes on drop.
pub(super) struct GitSubscription {
    query: GitQuery,
    trigger_state: ReadTrigger,
    status: Receiver,
    /// Forwards the answers of the poller.
    forwarder: Option<AbortOnDrop>,
    resolved_at: Option<Instant>,
    /// A reconcile has waited for the first answer.
    is_awaited: bool,
}

impl GitSubscription {
    /// Continues a subscription if nothing has changed, else subscribes.
    pub(super) fn of(
        poller: &Poller<Blocking<GitLister>>,
        before: Option<Self>,
        trigger_state: ReadTrigger,
        query: GitQuery,
        (stack, trigger): (ObjectRef<Decoded<Stack>>, StackTrigger),
    ) -> Self {
        let is_triggered = before
            .as_ref()
            .is_some_and(|before| before.trigger_state != trigger_state);
        if let Some(before) = before
            && !is_triggered
            && before.query == query
            && !before.is_expired()
        {
            return before;
        }
        let (repository, revision) = (query.repository.clone(), query.revision.clone());
        let tenant = stack.namespace.as_deref().unwrap_or_default();
        let subscription = if is_triggered {
            poller.subscribe_fresh(tenant, repository, revision, query.interval)
        } else {
            poller.subscribe(tenant, repository, revision, query.interval)
        };
        let (status, forwarder) = forward(subscription, stack, trigger);
        Self {
            query,
            trigger_state,
            status,
            forwarder: Some(forwarder),
            resolved_at: None,
            is_awaited: false,
        }
    }

    /// Whether a reconcile may wait for the answer, which is so once.
    pub(super) fn take_first_wait(&mut self) -> bool {
        !std::mem::replace(&mut self.is_awaited, true)
    }

    /// Whether the answer of an ended subscription has expired.
    fn is_expired(&self) -> bool {
        let age = self.resolved_at.map(|at| at.elapsed());
        age.is_some_and(|age| age >= self.query.interval)
    }

    pub(super) fn status(&self) -> Receiver {
        self.status.clone()
    }

    /// Unsubscribes if the revision was to be resolved once.
    pub(super) fn resolve(&mut self) {
        if self.query.once && self.forwarder.take().is_some() {
            self.resolved_at = Some(Instant::now());
        }
    }
}

fn forward(
    mut subscription: Subscription<Blocking<GitLister>>,
    stack: ObjectRef<Decoded<Stack>>,
    trigger: StackTrigger,
) -> (Receiver, AbortOnDrop) {
    let (sender, receiver) = watch::channel(subscription.status());
    let task = tokio::spawn(async move {
        loop {
            let status = subscription.changed().await;
            // There may be no receiver while the Stack is deleted.
            let _ = sender.send(status);
            let _ = trigger.send(stack.clone());
        }
    });
    (receiver, AbortOnDrop(task))
}

/// Whether there is an answer, a commit or a failure.
pub(super) fn is_resolved(status: &GitStatus) -> bool {
    status.commit.is_some() || status.failure.is_some()
}

pub(super) fn outcome(status: &GitStatus) -> Option<Result<String, SourceError>> {
    match (&status.commit, &status.failure) {
        (_, Some(failure)) => Some(Err(problem(failure))),
        (Some(commit), None) => Some(Ok(commit.to_string())),
        (None, None) => None,
    }
}

/// In upstream's words, followed by ours.
fn problem(failure: &PollFailure<ListError>) -> SourceError {
    let unreachable = |message: &dyn std::fmt::Display| SourceError::Unreachable {
        since: failure.since,
        message: format!("listing: {message}"),
    };
    match failure.error.as_ref() {
        PollError::Lister(error) if error.missing => {
            SourceError::Unavailable(error.message.clone())
        }
        PollError::Lister(error) if error.transient => unreachable(error),
        PollError::Lister(error) => SourceError::Unavailable(format!("listing: {error}")),
        error @ (PollError::Deadline | PollError::Crashed) => unreachable(error),
    }
}

#[cfg(test)]
mod tests;
