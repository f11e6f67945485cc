//! Runs the schedule and notifies subscribers.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures::FutureExt as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep_until, timeout},
};

use super::{
    ListRequest, ListResponse, Lister, PollError, PollFailure, PollStatus,
    schedule::{ListOutcome, PollerSettings, Schedule, SubscriberTerms},
};
use crate::Deadline;

/// A request that exceeds its deadline by this much counts as hung.
const SLACK: Duration = Duration::from_secs(5);

type SubscriptionStatus<L> = PollStatus<<L as Lister>::Commit, <L as Lister>::Error>;

/// Polls repositories for all subscribers. Dropping it stops polling.
pub struct Poller<L: Lister> {
    inner: Arc<PollerInner<L>>,
    task: JoinHandle<()>,
}

/// Follows a revision of a repository until it is dropped.
pub struct Subscription<L: Lister> {
    inner: Arc<PollerInner<L>>,
    repository: L::Repository,
    number: u64,
    terms: SubscriberTerms,
    receiver: watch::Receiver<SubscriptionStatus<L>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollerCounts {
    pub repositories: usize,
    pub subscribers: usize,
    pub in_flight: usize,
}

struct PollerInner<L: Lister> {
    lister: L,
    settings: PollerSettings,
    state: Mutex<PollerState<L>>,
    changed: Notify,
}

struct PollerState<L: Lister> {
    schedule: Schedule<L::Repository>,
    repositories: HashMap<L::Repository, RepositorySubscribers<L>>,
    next_number: u64,
}

struct RepositorySubscribers<L: Lister> {
    subscribers: Vec<Subscriber<L>>,
    /// Set while the server fails.
    failure: Option<PollFailure<L::Error>>,
}

struct Subscriber<L: Lister> {
    number: u64,
    revision: L::Revision,
    sender: watch::Sender<SubscriptionStatus<L>>,
}

struct CompletedRequest<L: Lister> {
    repository: L::Repository,
    revisions: Vec<L::Revision>,
    response: Result<ListResponse<L>, PollError<L::Error>>,
}

impl<L: Lister> Poller<L> {
    /// Spawns the poller on the current runtime.
    #[must_use]
    pub fn start(lister: L, settings: PollerSettings) -> Self {
        Self::with_seed(lister, settings, RandomState::new().hash_one(0))
    }

    /// Like [`Self::start`], with deterministic jitter.
    #[must_use]
    pub fn with_seed(lister: L, settings: PollerSettings, seed: u64) -> Self {
        let inner = Arc::new(PollerInner {
            lister,
            settings,
            state: Mutex::new(PollerState {
                schedule: Schedule::new(settings, seed),
                repositories: HashMap::new(),
                next_number: 0,
            }),
            changed: Notify::new(),
        });
        let task = tokio::spawn(run_poller(Arc::clone(&inner)));
        Self { inner, task }
    }

    /// Follows a revision for a tenant, who gets a fair share of the requests. The status is
    /// available immediately if another subscriber follows the same one.
    #[must_use]
    pub fn subscribe(
        &self,
        tenant: &str,
        repository: L::Repository,
        revision: L::Revision,
        interval: Duration,
    ) -> Subscription<L> {
        self.add_subscriber(
            repository,
            revision,
            SubscriberTerms::new(tenant, interval),
            RepositorySubscribers::current_status,
        )
    }

    /// Like [`Self::subscribe`], but ignores what is cached and polls now, even if the last request
    /// failed. `Retry-After` is still respected.
    #[must_use]
    pub fn subscribe_fresh(
        &self,
        tenant: &str,
        repository: L::Repository,
        revision: L::Revision,
        interval: Duration,
    ) -> Subscription<L> {
        let terms = SubscriberTerms::new(tenant, interval);
        let subscription = self.add_subscriber(repository, revision, terms, |_, _| PollStatus {
            commit: None,
            failure: None,
        });
        self.poll_now(|repository| *repository == subscription.repository);
        subscription
    }

    fn add_subscriber(
        &self,
        repository: L::Repository,
        revision: L::Revision,
        terms: SubscriberTerms,
        known: impl FnOnce(&RepositorySubscribers<L>, &L::Revision) -> SubscriptionStatus<L>,
    ) -> Subscription<L> {
        let host = self.inner.lister.host(&repository);
        let mut state = self.inner.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        let PollerState {
            schedule,
            repositories,
            ..
        } = &mut *state;
        let entry = repositories.entry(repository.clone()).or_default();
        let status = known(entry, &revision);
        let needs_list = !status.has_result();
        let now = Instant::now().into_std();
        schedule.add_subscriber(&repository, &host, &terms, needs_list, now);
        let (sender, receiver) = watch::channel(status);
        entry.subscribers.push(Subscriber {
            number,
            revision,
            sender,
        });
        drop(state);
        self.inner.changed.notify_one();
        Subscription {
            inner: Arc::clone(&self.inner),
            repository,
            number,
            terms,
            receiver,
        }
    }

    /// Polls these repositories soon, for instance after a webhook.
    pub fn poll_now(&self, matches: impl Fn(&L::Repository) -> bool) {
        let mut state = self.inner.state.lock();
        let now = Instant::now().into_std();
        let PollerState {
            schedule,
            repositories,
            ..
        } = &mut *state;
        for repository in repositories.keys().filter(|repository| matches(repository)) {
            schedule.request_poll(repository, now);
        }
        drop(state);
        self.inner.changed.notify_one();
    }

    #[must_use]
    pub fn counts(&self) -> PollerCounts {
        let state = self.inner.state.lock();
        let (repositories, in_flight) = state.schedule.counts();
        PollerCounts {
            repositories,
            subscribers: state
                .repositories
                .values()
                .map(RepositorySubscribers::len)
                .sum(),
            in_flight,
        }
    }
}

impl<L: Lister> Drop for Poller<L> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<L: Lister> Subscription<L> {
    #[must_use]
    pub fn status(&self) -> SubscriptionStatus<L> {
        self.receiver.borrow().clone()
    }

    /// Waits until the status changes. A change before the first call counts.
    pub async fn changed(&mut self) -> SubscriptionStatus<L> {
        if self.receiver.changed().await.is_err() {
            // The sender lives as long as the subscription.
            std::future::pending::<()>().await;
        }
        self.receiver.borrow_and_update().clone()
    }
}

impl<L: Lister> Drop for Subscription<L> {
    fn drop(&mut self) {
        let mut state = self.inner.state.lock();
        if let Some(repository) = state.repositories.get_mut(&self.repository) {
            let subscribers = &mut repository.subscribers;
            subscribers.retain(|subscriber| subscriber.number != self.number);
            if subscribers.is_empty() {
                state.repositories.remove(&self.repository);
            }
        }
        state
            .schedule
            .remove_subscriber(&self.repository, &self.terms);
    }
}

async fn run_poller<L: Lister>(inner: Arc<PollerInner<L>>) {
    let mut requests = JoinSet::new();
    loop {
        let next = inner.start_due(&mut requests);
        let wake = async {
            match next {
                Some(time) => sleep_until(Instant::from_std(time)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(completed) = requests.join_next() => {
                if let Ok(completed) = completed {
                    inner.complete(completed);
                }
            }
            () = inner.changed.notified() => {}
            () = wake => {}
        }
    }
}

impl<L: Lister> PollerInner<L> {
    /// Starts the requests that are due and returns the next due time.
    fn start_due(
        self: &Arc<Self>,
        requests: &mut JoinSet<CompletedRequest<L>>,
    ) -> Option<std::time::Instant> {
        let mut state = self.state.lock();
        for repository in state.schedule.start(Instant::now().into_std()) {
            let revisions = state.revisions(&repository);
            requests.spawn(Arc::clone(self).send_request(repository, revisions));
        }
        state.schedule.next()
    }

    async fn send_request(
        self: Arc<Self>,
        repository: L::Repository,
        revisions: Vec<L::Revision>,
    ) -> CompletedRequest<L> {
        let request = ListRequest {
            repository: repository.clone(),
            revisions: revisions.clone(),
            deadline: Deadline::after(self.settings.deadline),
        };
        // A request that panics shares no state with the poller.
        let listing = AssertUnwindSafe(self.lister.list(request)).catch_unwind();
        let response = match timeout(self.settings.deadline + SLACK, listing).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => Err(PollError::Crashed),
            Err(_) => Err(PollError::Deadline),
        };
        CompletedRequest {
            repository,
            revisions,
            response,
        }
    }

    fn complete(&self, completed: CompletedRequest<L>) {
        let mut state = self.state.lock();
        let (outcome, results) = match completed.response {
            Ok(Ok(results)) => (ListOutcome::Answered, Ok(results)),
            Ok(Err(failure)) => {
                let retry_after = failure.retry_after;
                let error = PollError::Lister(failure.error);
                (ListOutcome::Failed { retry_after }, Err(error))
            }
            Err(error) => (ListOutcome::Failed { retry_after: None }, Err(error)),
        };
        let now = Instant::now().into_std();
        state.schedule.finish(&completed.repository, outcome, now);
        let Some(repository) = state.repositories.get_mut(&completed.repository) else {
            return;
        };
        match results {
            Ok(results) => repository.publish_results(&completed.revisions, results),
            Err(error) => repository.publish_failure(error),
        }
    }
}

impl<L: Lister> PollerState<L> {
    /// The distinct revisions of a repository.
    fn revisions(&self, repository: &L::Repository) -> Vec<L::Revision> {
        let repository = self.repositories.get(repository);
        let subscribers = repository.map(|repository| &repository.subscribers);
        let mut revisions = Vec::new();
        for subscriber in subscribers.into_iter().flatten() {
            if !revisions.contains(&subscriber.revision) {
                revisions.push(subscriber.revision.clone());
            }
        }
        revisions
    }
}

impl<L: Lister> Default for RepositorySubscribers<L> {
    fn default() -> Self {
        Self {
            subscribers: Vec::new(),
            failure: None,
        }
    }
}

impl<L: Lister> RepositorySubscribers<L> {
    fn len(&self) -> usize {
        self.subscribers.len()
    }

    /// The status of another subscriber to the same revision, or at least the server's failure.
    fn current_status(&self, revision: &L::Revision) -> SubscriptionStatus<L> {
        let mut others = self.subscribers.iter();
        let same = others.find(|other| other.revision == *revision);
        let known = same.map(|other| other.sender.borrow().clone());
        known.unwrap_or_else(|| PollStatus {
            commit: None,
            failure: self.failure.clone(),
        })
    }

    /// Subscribers that came after the request get the next response.
    fn publish_results(
        &mut self,
        revisions: &[L::Revision],
        results: Vec<Result<L::Commit, L::Error>>,
    ) {
        let now = Timestamp::now();
        self.failure = None;
        for (revision, result) in revisions.iter().zip(results) {
            let result = result.map_err(|error| Arc::new(PollError::Lister(error)));
            let matches = self.subscribers.iter();
            for subscriber in matches.filter(|one| one.revision == *revision) {
                let (sender, result) = (&subscriber.sender, result.clone());
                sender.send_if_modified(|status| status.record_result(result, now));
            }
        }
    }

    fn publish_failure(&mut self, error: PollError<L::Error>) {
        let (error, now) = (Arc::new(error), Timestamp::now());
        let since = self.failure.as_ref().map_or(now, |failure| failure.since);
        for subscriber in &self.subscribers {
            let failure = Err(Arc::clone(&error));
            let sender = &subscriber.sender;
            sender.send_if_modified(|status| status.record_result(failure, now));
        }
        self.failure = Some(PollFailure { error, since });
    }
}
