//! The shared poller: one question to a server, however many Stacks want the answer.
//!
//! ```text
//!   Subscription (repository, revision, interval) ─┐            ┌─▶ Lister: all wanted revisions of a repository
//!   Subscription ──────────────────────────────────┼─▶ Poller ──┤
//!   Subscription ◀── last commit, or error since ──┘            └─ schedule: when, how many at once (pure)
//! ```
//!
//! A repository is an address together with who asks: those who share both share a question. A server that hangs
//! delays its own repositories; see [`Settings`] for what is left for the others.

mod blocking;
mod driver;
mod git;
mod schedule;
mod status;

use std::{fmt::Display, future::Future, hash::Hash, time::Duration};

pub use blocking::{Blocking, BlockingLister};
pub use driver::{Counts, Poller, Subscription};
pub use git::{GitLister, GitRepository, ListError};
pub use schedule::Settings;
pub use status::{Failure, PollError, Status};

use crate::Deadline;

/// Who asks the servers.
pub trait Lister: Send + Sync + Sized + 'static {
    /// An address, and who asks.
    type Repository: Clone + Eq + Hash + Send + Sync + 'static;
    /// What somebody wants to know of a repository.
    type Revision: Clone + Eq + Send + Sync + 'static;
    /// What a revision is.
    type Commit: Clone + Eq + Send + Sync + 'static;
    /// Why there is no answer.
    type Error: Display + Send + Sync + 'static;

    /// The server of a repository, as only so many questions go to one at a time.
    fn host(&self, repository: &Self::Repository) -> String;

    /// Asks the server once for all of these revisions. The answer has one result for each, in their order.
    fn list(&self, question: Question<Self>) -> impl Future<Output = Answer<Self>> + Send;
}

/// What is asked.
pub struct Question<L: Lister> {
    /// Which repository
    pub repository: L::Repository,
    /// Each once
    pub revisions: Vec<L::Revision>,
    /// When nobody waits for the answer any more
    pub deadline: Deadline,
}

/// One result for each revision, or nothing from the server at all.
pub type Answer<L> = Result<
    Vec<Result<<L as Lister>::Commit, <L as Lister>::Error>>,
    ListFailure<<L as Lister>::Error>,
>;

/// A server that did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFailure<E> {
    /// Why
    pub error: E,
    /// How long it wants to be left alone
    pub retry_after: Option<Duration>,
}
