//! The shared poller: one request to a server for all Stacks that use a repository.
//!
//! ```text
//!   Subscription (repository, revision, interval) ─┐            ┌─▶ Lister: requests all revisions of a repository
//!   Subscription ──────────────────────────────────┼─▶ Poller ──┤
//!   Subscription ◀── last commit, last failure ────┘            └─▶ schedule: when, and how many at once (pure)
//! ```
//!
//! Subscribers share a request if address and credentials agree. A server that hangs delays only
//! its own repositories, and servers that hang delay only repositories of their tenant; see
//! [`PollerSettings`] for the limits.

mod blocking;
mod git_lister;
mod poller;
mod schedule;
mod status;

use std::{fmt::Display, future::Future, hash::Hash, time::Duration};

pub use blocking::{Blocking, BlockingLister};
pub use git_lister::{GitLister, GitRepository, ListError};
pub use poller::{Poller, PollerCounts, Subscription};
pub use schedule::PollerSettings;
pub use status::{PollError, PollFailure, PollStatus};

use crate::Deadline;

pub trait Lister: Send + Sync + Sized + 'static {
    type Repository: Clone + Eq + Hash + Send + Sync + 'static;
    type Revision: Clone + Eq + Send + Sync + 'static;
    type Commit: Clone + Eq + Send + Sync + 'static;
    type Error: Display + Send + Sync + 'static;

    /// The host of a repository, for the limit of requests per host.
    fn host(&self, repository: &Self::Repository) -> String;

    /// Requests all these revisions at once. The response has one result per revision, in their
    /// order.
    fn list(&self, request: ListRequest<Self>) -> impl Future<Output = ListResponse<Self>> + Send;
}

pub struct ListRequest<L: Lister> {
    pub repository: L::Repository,
    pub revisions: Vec<L::Revision>,
    pub deadline: Deadline,
}

/// One result per revision, or a failure of the whole request.
pub type ListResponse<L> = Result<
    Vec<Result<<L as Lister>::Commit, <L as Lister>::Error>>,
    ListFailure<<L as Lister>::Error>,
>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFailure<E> {
    pub error: E,
    /// The delay that the server requested.
    pub retry_after: Option<Duration>,
}
