//! Carries out what the schedule says, and tells the subscribers.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio::{
    sync::{Notify, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep_until, timeout},
};

use super::{
    Answer, Failure, Lister, PollError, Question, Status,
    schedule::{Outcome, Schedule, Settings},
};
use crate::Deadline;

/// How much longer than its deadline a question may take until it counts as one that hangs.
const SLACK: Duration = Duration::from_secs(5);

type StatusOf<L> = Status<<L as Lister>::Commit, <L as Lister>::Error>;

/// Asks servers for all who subscribed. It stops when it is dropped.
pub struct Poller<L: Lister> {
    shared: Arc<Shared<L>>,
    driver: JoinHandle<()>,
}

/// Somebody who wants to know what a revision of a repository is, until this is dropped.
pub struct Subscription<L: Lister> {
    shared: Arc<Shared<L>>,
    repository: L::Repository,
    number: u64,
    interval: Duration,
    receiver: watch::Receiver<StatusOf<L>>,
}

/// How much there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Repositories that somebody wants to know about
    pub repositories: usize,
    /// Who wants to know
    pub subscribers: usize,
    /// Questions under way
    pub under_way: usize,
}

struct Shared<L: Lister> {
    lister: L,
    settings: Settings,
    state: Mutex<State<L>>,
    changed: Notify,
}

struct State<L: Lister> {
    schedule: Schedule<L::Repository>,
    repositories: HashMap<L::Repository, Repository<L>>,
    next_number: u64,
}

struct Repository<L: Lister> {
    subscribers: Vec<Subscriber<L>>,
    /// The server did not answer the last time.
    failure: Option<Failure<L::Error>>,
}

struct Subscriber<L: Lister> {
    number: u64,
    revision: L::Revision,
    sender: watch::Sender<StatusOf<L>>,
}

/// A question that has ended.
struct Done<L: Lister> {
    repository: L::Repository,
    revisions: Vec<L::Revision>,
    answer: Result<Answer<L>, PollError<L::Error>>,
}

impl<L: Lister> Poller<L> {
    /// Starts on the runtime of the caller.
    #[must_use]
    pub fn start(lister: L, settings: Settings) -> Self {
        Self::with_seed(lister, settings, RandomState::new().hash_one(0))
    }

    /// With chance that is the same each time, for tests.
    #[must_use]
    pub fn with_seed(lister: L, settings: Settings, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            lister,
            settings,
            state: Mutex::new(State {
                schedule: Schedule::new(settings, seed),
                repositories: HashMap::new(),
                next_number: 0,
            }),
            changed: Notify::new(),
        });
        let driver = tokio::spawn(drive(Arc::clone(&shared)));
        Self { shared, driver }
    }

    /// Wants to know what a revision is, as often as this. Whoever wants to know what somebody knows already has the
    /// answer at once.
    #[must_use]
    pub fn subscribe(
        &self,
        repository: L::Repository,
        revision: L::Revision,
        interval: Duration,
    ) -> Subscription<L> {
        self.join(repository, revision, interval, Repository::known_of)
    }

    /// The same for somebody who was told to look now: what others know does not count, and the server is asked, even
    /// one that failed a moment ago. One that wants to be left alone still is.
    #[must_use]
    pub fn subscribe_anew(
        &self,
        repository: L::Repository,
        revision: L::Revision,
        interval: Duration,
    ) -> Subscription<L> {
        let subscription = self.join(repository, revision, interval, |_, _| Status {
            commit: None,
            failure: None,
        });
        self.poll_now(|repository| *repository == subscription.repository);
        subscription
    }

    fn join(
        &self,
        repository: L::Repository,
        revision: L::Revision,
        interval: Duration,
        known: impl FnOnce(&Repository<L>, &L::Revision) -> StatusOf<L>,
    ) -> Subscription<L> {
        let host = self.shared.lister.host(&repository);
        let mut state = self.shared.lock();
        let number = state.next_number;
        state.next_number += 1;
        let State {
            schedule,
            repositories,
            ..
        } = &mut *state;
        let entry = repositories.entry(repository.clone()).or_default();
        let status = known(entry, &revision);
        let news = !status.is_known();
        let now = Instant::now().into_std();
        schedule.join(&repository, &host, interval, news, now);
        let (sender, receiver) = watch::channel(status);
        entry.subscribers.push(Subscriber {
            number,
            revision,
            sender,
        });
        drop(state);
        self.shared.changed.notify_one();
        Subscription {
            shared: Arc::clone(&self.shared),
            repository,
            number,
            interval,
            receiver,
        }
    }

    /// There may be news in these repositories, as a webhook says.
    pub fn poll_now(&self, meant: impl Fn(&L::Repository) -> bool) {
        let mut state = self.shared.lock();
        let now = Instant::now().into_std();
        let State {
            schedule,
            repositories,
            ..
        } = &mut *state;
        for repository in repositories.keys().filter(|repository| meant(repository)) {
            schedule.hint(repository, now);
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    /// How much there is to do.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let state = self.shared.lock();
        let (repositories, under_way) = state.schedule.counts();
        Counts {
            repositories,
            subscribers: state.repositories.values().map(Repository::len).sum(),
            under_way,
        }
    }
}

impl<L: Lister> Drop for Poller<L> {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl<L: Lister> Subscription<L> {
    /// What is known now.
    #[must_use]
    pub fn status(&self) -> StatusOf<L> {
        self.receiver.borrow().clone()
    }

    /// Waits until that changes. What changed before the first call counts, too.
    pub async fn changed(&mut self) -> StatusOf<L> {
        if self.receiver.changed().await.is_err() {
            // Our own sender lives as long as we do.
            std::future::pending::<()>().await;
        }
        self.receiver.borrow_and_update().clone()
    }
}

impl<L: Lister> Drop for Subscription<L> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Some(repository) = state.repositories.get_mut(&self.repository) {
            let subscribers = &mut repository.subscribers;
            subscribers.retain(|subscriber| subscriber.number != self.number);
            if subscribers.is_empty() {
                state.repositories.remove(&self.repository);
            }
        }
        state.schedule.leave(&self.repository, self.interval);
    }
}

async fn drive<L: Lister>(shared: Arc<Shared<L>>) {
    let mut questions = JoinSet::new();
    loop {
        let next = shared.begin(&mut questions);
        let wake = async {
            match next {
                Some(time) => sleep_until(Instant::from_std(time)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(done) = questions.join_next() => {
                if let Ok(done) = done {
                    shared.finish(done);
                }
            }
            () = shared.changed.notified() => {}
            () = wake => {}
        }
    }
}

impl<L: Lister> Shared<L> {
    /// Starts the questions that are due; gives the time at which to look again.
    fn begin(self: &Arc<Self>, questions: &mut JoinSet<Done<L>>) -> Option<std::time::Instant> {
        let mut state = self.lock();
        for repository in state.schedule.start(Instant::now().into_std()) {
            let revisions = state.revisions(&repository);
            questions.spawn(Arc::clone(self).ask(repository, revisions));
        }
        state.schedule.next()
    }

    async fn ask(
        self: Arc<Self>,
        repository: L::Repository,
        revisions: Vec<L::Revision>,
    ) -> Done<L> {
        let question = Question {
            repository: repository.clone(),
            revisions: revisions.clone(),
            deadline: Deadline::after(self.settings.deadline),
        };
        // Nothing of ours is shared with a question that crashes.
        let listing = AssertUnwindSafe(self.lister.list(question)).catch_unwind();
        let answer = match timeout(self.settings.deadline + SLACK, listing).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(PollError::Crashed),
            Err(_) => Err(PollError::Deadline),
        };
        Done {
            repository,
            revisions,
            answer,
        }
    }

    fn finish(&self, done: Done<L>) {
        let mut state = self.lock();
        let (outcome, results) = match done.answer {
            Ok(Ok(results)) => (Outcome::Answered, Ok(results)),
            Ok(Err(failure)) => {
                let retry_after = failure.retry_after;
                let error = PollError::Lister(failure.error);
                (Outcome::Failed { retry_after }, Err(error))
            }
            Err(error) => (Outcome::Failed { retry_after: None }, Err(error)),
        };
        let now = Instant::now().into_std();
        state.schedule.finish(&done.repository, outcome, now);
        let Some(repository) = state.repositories.get_mut(&done.repository) else {
            return;
        };
        match results {
            Ok(results) => repository.tell_each(&done.revisions, results),
            Err(error) => repository.tell_all(error),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Lister> State<L> {
    /// What is wanted of a repository, each once.
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

impl<L: Lister> Default for Repository<L> {
    fn default() -> Self {
        Self {
            subscribers: Vec::new(),
            failure: None,
        }
    }
}

impl<L: Lister> Repository<L> {
    fn len(&self) -> usize {
        self.subscribers.len()
    }

    /// What others know of a revision, or at least that the server does not answer.
    fn known_of(&self, revision: &L::Revision) -> StatusOf<L> {
        let mut others = self.subscribers.iter();
        let same = others.find(|other| other.revision == *revision);
        let known = same.map(|other| other.sender.borrow().clone());
        known.unwrap_or_else(|| Status {
            commit: None,
            failure: self.failure.clone(),
        })
    }

    /// Those who came after the question was asked are told the next time.
    fn tell_each(&mut self, revisions: &[L::Revision], results: Vec<Result<L::Commit, L::Error>>) {
        let now = Timestamp::now();
        self.failure = None;
        for (revision, result) in revisions.iter().zip(results) {
            let result = result.map_err(|error| Arc::new(PollError::Lister(error)));
            let meant = self.subscribers.iter();
            for subscriber in meant.filter(|one| one.revision == *revision) {
                let (sender, result) = (&subscriber.sender, result.clone());
                sender.send_if_modified(|status| status.absorb(result, now));
            }
        }
    }

    fn tell_all(&mut self, error: PollError<L::Error>) {
        let (error, now) = (Arc::new(error), Timestamp::now());
        let since = self.failure.as_ref().map_or(now, |failure| failure.since);
        for subscriber in &self.subscribers {
            let failure = Err(Arc::clone(&error));
            let sender = &subscriber.sender;
            sender.send_if_modified(|status| status.absorb(failure, now));
        }
        self.failure = Some(Failure { error, since });
    }
}
