//! What a Stack follows: a revision of a repository, and what is known of it.
//!
//! | what happens | what is done |
//! |---|---|
//! | the same is wanted | what is known is the answer, and the poller keeps it up to date |
//! | another repository, branch or credential | it is asked for; others may know the answer already |
//! | the spec or the request has changed | the server is asked now, whatever is known |
//! | `commit` is a name, and it is answered | nobody asks any more, and the answer is good for one interval |

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

use crate::sources::{Task, Wake};

type GitStatus = PollStatus<CommitId, ListError>;
/// What is known of a revision.
pub(super) type Receiver = watch::Receiver<GitStatus>;

/// What a Stack asks.
#[derive(PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) repository: GitRepository,
    pub(super) revision: Revision,
    pub(super) interval: Duration,
    /// It is not followed.
    pub(super) once: bool,
}

/// For what a Stack looks: a new spec and a new request want to know how things are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Need {
    uid: Option<String>,
    generation: Option<i64>,
    requests: [Option<String>; 2],
}

impl Need {
    pub(super) fn of(stack: &Stack) -> Self {
        let request = |key| stack.annotations().get(key).cloned();
        Self {
            uid: stack.uid(),
            generation: stack.metadata.generation,
            requests: [request(RECONCILIATION_REQUEST), request(FLUX_REQUESTED_AT)],
        }
    }
}

/// A revision that is followed for a Stack, until this is dropped.
pub(super) struct Followed {
    asked: Asked,
    need: Need,
    status: Receiver,
    /// Hands on what the poller says.
    follower: Option<Task>,
    answered_at: Option<Instant>,
}

impl Followed {
    /// What is followed from now on, if this was before.
    pub(super) fn of(
        poller: &Poller<Blocking<GitLister>>,
        before: Option<Self>,
        need: Need,
        asked: Asked,
        (stack, wake): (ObjectRef<Decoded<Stack>>, Wake),
    ) -> Self {
        let told_to_look = before.as_ref().is_some_and(|before| before.need != need);
        if let Some(before) = before
            && !told_to_look
            && before.asked == asked
            && !before.is_old()
        {
            return before;
        }
        let (repository, revision) = (asked.repository.clone(), asked.revision.clone());
        let subscription = if told_to_look {
            poller.subscribe_fresh(repository, revision, asked.interval)
        } else {
            poller.subscribe(repository, revision, asked.interval)
        };
        let (status, follower) = follow(subscription, stack, wake);
        Self {
            asked,
            need,
            status,
            follower: Some(follower),
            answered_at: None,
        }
    }

    /// An answer that nobody keeps up to date, from an interval ago.
    fn is_old(&self) -> bool {
        let age = self.answered_at.map(|at| at.elapsed());
        age.is_some_and(|age| age >= self.asked.interval)
    }

    /// What is known.
    pub(super) fn status(&self) -> Receiver {
        self.status.clone()
    }

    /// There is an answer: whoever wanted it once does not want to know more.
    pub(super) fn answered(&mut self) {
        if self.asked.once && self.follower.take().is_some() {
            self.answered_at = Some(Instant::now());
        }
    }
}

fn follow(
    mut subscription: Subscription<Blocking<GitLister>>,
    stack: ObjectRef<Decoded<Stack>>,
    wake: Wake,
) -> (Receiver, Task) {
    let (sender, receiver) = watch::channel(subscription.status());
    let task = tokio::spawn(async move {
        loop {
            let status = subscription.changed().await;
            // Nobody reads it if the Stack is about to go.
            let _ = sender.send(status);
            let _ = wake.send(stack.clone());
        }
    });
    (receiver, Task(task))
}

/// Whether there is an answer, good or bad.
pub(super) fn is_known(status: &GitStatus) -> bool {
    status.commit.is_some() || status.failure.is_some()
}

/// What an answer means, if there is one.
pub(super) fn outcome(status: &GitStatus) -> Option<Result<String, SourceError>> {
    match (&status.commit, &status.failure) {
        (_, Some(failure)) => Some(Err(problem(failure))),
        (Some(commit), None) => Some(Ok(commit.to_string())),
        (None, None) => None,
    }
}

/// In upstream's words, with ours behind them.
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
