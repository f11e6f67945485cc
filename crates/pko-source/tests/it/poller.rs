//! The poller with a scripted lister, on tokio's paused clock.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use pko_source::poll::{
    ListFailure, ListRequest, ListResponse, Lister, PollError, Poller, PollerSettings, Subscription,
};
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_mins(1);

#[derive(Clone)]
enum ServerBehaviour {
    /// Each revision resolves to its name and this number.
    At(u32),
    Hangs,
    Fails(&'static str, Option<Duration>),
    Crashes,
}

#[derive(Clone, Default)]
struct FakeLister(Arc<Mutex<FakeState>>);

#[derive(Default)]
struct FakeState {
    servers: HashMap<&'static str, ServerBehaviour>,
    requests: Vec<RecordedList>,
}

#[derive(Clone, Debug)]
struct RecordedList {
    repository: FakeRepository,
    revisions: usize,
    at: Instant,
}

/// Host, path and credentials.
type FakeRepository = (&'static str, u32, &'static str);

impl FakeLister {
    fn set(&self, host: &'static str, server: ServerBehaviour) {
        self.0.lock().unwrap().servers.insert(host, server);
    }

    /// The requests since the last call.
    fn take_requests(&self) -> Vec<RecordedList> {
        std::mem::take(&mut self.0.lock().unwrap().requests)
    }
}

impl Lister for FakeLister {
    type Repository = FakeRepository;
    type Revision = String;
    type Commit = String;
    type Error = String;

    fn host(&self, repository: &FakeRepository) -> String {
        repository.0.to_owned()
    }

    async fn list(&self, request: ListRequest<Self>) -> ListResponse<Self> {
        let server = {
            let mut state = self.0.lock().unwrap();
            state.requests.push(RecordedList {
                repository: request.repository,
                revisions: request.revisions.len(),
                at: Instant::now(),
            });
            let server = state.servers.get(request.repository.0);
            server.cloned().unwrap_or(ServerBehaviour::At(1))
        };
        sleep(Duration::from_millis(300)).await;
        match server {
            ServerBehaviour::At(number) => Ok(request
                .revisions
                .into_iter()
                .map(|revision| match revision.as_str() {
                    "gone" => Err("no such revision".to_owned()),
                    _ => Ok(format!("{revision}-{number}")),
                })
                .collect()),
            ServerBehaviour::Hangs => std::future::pending().await,
            ServerBehaviour::Crashes => panic!("a bug"),
            ServerBehaviour::Fails(error, retry_after) => Err(ListFailure {
                error: error.to_owned(),
                retry_after,
            }),
        }
    }
}

fn poller() -> (FakeLister, Poller<FakeLister>) {
    let fake = FakeLister::default();
    let poller = Poller::with_seed(fake.clone(), PollerSettings::default(), 1);
    (fake, poller)
}

fn subscribe(
    poller: &Poller<FakeLister>,
    host: &'static str,
    branch: &str,
) -> Subscription<FakeLister> {
    poller.subscribe("tenant", (host, 0, "me"), branch.to_owned(), MINUTE)
}

async fn next_commit(subscription: &mut Subscription<FakeLister>) -> String {
    loop {
        let status = subscription.changed().await;
        if let (Some(commit), None) = (status.commit, status.failure) {
            return commit;
        }
    }
}

async fn next_error(subscription: &mut Subscription<FakeLister>) -> PollError<String> {
    loop {
        if let Some(failure) = subscription.changed().await.failure {
            return (*failure.error).clone();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn push_reaches_hundred_subscribers_with_one_request() {
    let (fake, poller) = poller();
    let branches = (0..100).map(|number| format!("branch-{number}"));
    let mut subscriptions: Vec<_> = branches
        .map(|branch| subscribe(&poller, "git.example.com", &branch))
        .collect();
    for (number, subscription) in subscriptions.iter_mut().enumerate() {
        assert_eq!(
            next_commit(subscription).await,
            format!("branch-{number}-1")
        );
    }
    let requests = fake.take_requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].revisions, 100);

    // Three intervals without a change.
    sleep(3 * MINUTE).await;
    let questions = fake.take_requests().len();
    assert!((2..=4).contains(&questions), "{questions} questions");
    for subscription in &mut subscriptions {
        let quiet = tokio::time::timeout(Duration::ZERO, subscription.changed()).await;
        assert!(quiet.is_err(), "nobody is told what did not change");
    }

    fake.set("git.example.com", ServerBehaviour::At(2));
    for (number, subscription) in subscriptions.iter_mut().enumerate() {
        assert_eq!(
            next_commit(subscription).await,
            format!("branch-{number}-2")
        );
    }
    assert_eq!(fake.take_requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn subscribers_with_other_credentials_do_not_share() {
    let (fake, poller) = poller();
    let repository = |who| ("git.example.com", 0, who);
    let mut mine = poller.subscribe("tenant", repository("me"), "main".to_owned(), MINUTE);
    let mut yours = poller.subscribe("tenant", repository("you"), "main".to_owned(), MINUTE);
    next_commit(&mut mine).await;
    next_commit(&mut yours).await;
    assert_eq!(fake.take_requests().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn late_subscriber_gets_cached_status() {
    let (fake, poller) = poller();
    let mut first = subscribe(&poller, "git.example.com", "main");
    next_commit(&mut first).await;
    fake.take_requests();
    let second = subscribe(&poller, "git.example.com", "main");
    assert_eq!(second.status().commit.as_deref(), Some("main-1"));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fake.take_requests().len(), 0, "there was nothing to ask");
    // Another branch is requested soon, not after the interval.
    let begin = Instant::now();
    let mut third = subscribe(&poller, "git.example.com", "other");
    assert_eq!(next_commit(&mut third).await, "other-1");
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn subscribe_fresh_polls_immediately() {
    let (fake, poller) = poller();
    let anew = || {
        poller.subscribe_fresh(
            "tenant",
            ("git.example.com", 0, "me"),
            "main".to_owned(),
            MINUTE,
        )
    };
    let mut first = subscribe(&poller, "git.example.com", "main");
    next_commit(&mut first).await;
    fake.set("git.example.com", ServerBehaviour::At(2));
    let begin = Instant::now();
    let mut second = anew();
    assert_eq!(
        second.status().commit,
        None,
        "what others know does not count"
    );
    assert_eq!(next_commit(&mut second).await, "main-2");
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert_eq!(
        first.status().commit.as_deref(),
        Some("main-2"),
        "others hear of it"
    );
    // Nor does a recent failure count.
    fake.set("git.example.com", ServerBehaviour::Fails("no route", None));
    next_error(&mut first).await;
    fake.set("git.example.com", ServerBehaviour::At(3));
    let begin = Instant::now();
    assert_eq!(next_commit(&mut anew()).await, "main-3");
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn failure_keeps_commit_and_recovery_notifies() {
    let (fake, poller) = poller();
    let mut subscription = subscribe(&poller, "git.example.com", "main");
    next_commit(&mut subscription).await;
    fake.set("git.example.com", ServerBehaviour::Fails("no route", None));
    let error = next_error(&mut subscription).await;
    assert_eq!(error, PollError::Lister("no route".to_owned()));
    assert_eq!(subscription.status().commit.as_deref(), Some("main-1"));
    let since = subscription.status().failure.unwrap().since;
    fake.set("git.example.com", ServerBehaviour::Fails("denied", None));
    next_error(&mut subscription).await;
    assert_eq!(subscription.status().failure.unwrap().since, since);
    // A new subscriber gets the failure immediately, without a request.
    fake.take_requests();
    let late = subscribe(&poller, "git.example.com", "other");
    let status = late.status();
    assert!(status.commit.is_none());
    assert_eq!(status.failure.unwrap().error.to_string(), "denied");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(fake.take_requests().len(), 0);
    fake.set("git.example.com", ServerBehaviour::At(2));
    assert_eq!(next_commit(&mut subscription).await, "main-2");
    assert!(subscription.status().failure.is_none());
    assert_eq!(late.status().commit.as_deref(), Some("other-2"));
}

#[tokio::test(start_paused = true)]
async fn missing_revision_does_not_back_off() {
    let (fake, poller) = poller();
    let mut main = subscribe(&poller, "git.example.com", "main");
    let mut gone = subscribe(&poller, "git.example.com", "gone");
    assert_eq!(next_commit(&mut main).await, "main-1");
    let error = next_error(&mut gone).await;
    assert_eq!(error, PollError::Lister("no such revision".to_owned()));
    fake.take_requests();
    sleep(3 * MINUTE).await;
    let questions = fake.take_requests().len();
    assert!(
        (2..=4).contains(&questions),
        "the usual interval: {questions}"
    );
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected() {
    let (fake, poller) = poller();
    fake.set(
        "git.example.com",
        ServerBehaviour::Fails("slow down", Some(20 * MINUTE)),
    );
    let mut subscription = subscribe(&poller, "git.example.com", "main");
    next_error(&mut subscription).await;
    fake.take_requests();
    poller.poll_now(|_| true);
    sleep(19 * MINUTE).await;
    assert_eq!(fake.take_requests().len(), 0);
    sleep(2 * MINUTE).await;
    assert_eq!(fake.take_requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn poll_now_polls_only_matching_repositories() {
    let (fake, poller) = poller();
    let mut here = subscribe(&poller, "here.example.com", "main");
    let mut there = subscribe(&poller, "there.example.com", "main");
    next_commit(&mut here).await;
    next_commit(&mut there).await;
    sleep(Duration::from_secs(5)).await;
    fake.take_requests();
    fake.set("here.example.com", ServerBehaviour::At(2));
    let begin = Instant::now();
    for _ in 0..1000 {
        poller.poll_now(|repository| repository.0 == "here.example.com");
    }
    assert_eq!(
        next_commit(&mut here).await,
        "here-2".replace("here", "main")
    );
    assert!(begin.elapsed() < Duration::from_secs(1));
    sleep(Duration::from_secs(10)).await;
    let requests = fake.take_requests();
    assert!(requests.len() <= 2, "{requests:?}");
    assert!(
        requests
            .iter()
            .all(|requests| requests.repository.0 == "here.example.com")
    );
}

#[tokio::test(start_paused = true)]
async fn hanging_server_delays_only_its_repositories() {
    const HANGING: [&str; 100] = ["hanging"; 100];
    let (fake, poller) = poller();
    let mut good = subscribe(&poller, "good.example.com", "main");
    next_commit(&mut good).await;
    // A hundred repositories of one hanging server, and forty other hanging servers, of two
    // tenants.
    fake.set("hanging", ServerBehaviour::Hangs);
    let mut stuck = Vec::new();
    for (number, host) in (0..).zip(HANGING) {
        stuck.push(poller.subscribe("tenant", (host, number, "me"), "main".to_owned(), MINUTE));
    }
    for host in others() {
        fake.set(host, ServerBehaviour::Hangs);
        stuck.push(subscribe(&poller, host, "main"));
    }
    sleep(30 * MINUTE).await;
    let requests = fake.take_requests();
    let times: Vec<_> = requests
        .iter()
        .filter(|requests| requests.repository.0 == "good.example.com")
        .map(|requests| requests.at)
        .collect();
    let longest = times
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .max()
        .unwrap();
    assert!(
        longest <= MINUTE * 11 / 10 + Duration::from_secs(1),
        "{longest:?}"
    );
    assert!(times.len() >= 27, "{}", times.len());
    let most = poller.counts().in_flight;
    assert!(most <= 16, "half of the slots stay free: {most}");
    // Each was requested, and its subscriber notified.
    for subscription in &mut stuck {
        assert_eq!(next_error(subscription).await, PollError::Deadline);
    }
}

fn others() -> impl Iterator<Item = &'static str> {
    (0..40).map(|number| &*format!("hanging-{number}.example.com").leak())
}

#[tokio::test(start_paused = true)]
async fn thousand_repositories_are_polled_once_per_interval() {
    let (fake, poller) = poller();
    let hosts: Vec<&'static str> = others().collect();
    let subscriptions: Vec<_> = (0..1000)
        .map(|number| {
            let host = hosts[number as usize % hosts.len()];
            let tenant = format!("tenant-{}", number % 4);
            poller.subscribe(&tenant, (host, number, "me"), "main".to_owned(), MINUTE)
        })
        .collect();
    sleep(MINUTE / 2).await;
    assert_eq!(fake.take_requests().len(), 1000);
    sleep(10 * MINUTE).await;
    let questions = fake.take_requests().len();
    assert!((8_500..=11_500).contains(&questions), "{questions}");
    assert!(
        subscriptions
            .iter()
            .all(|one| one.status().commit.is_some())
    );
}

#[tokio::test(start_paused = true)]
async fn panicking_request_is_retried() {
    let (fake, poller) = poller();
    fake.set("git.example.com", ServerBehaviour::Crashes);
    let mut subscription = subscribe(&poller, "git.example.com", "main");
    assert_eq!(next_error(&mut subscription).await, PollError::Crashed);
    fake.set("git.example.com", ServerBehaviour::At(3));
    assert_eq!(next_commit(&mut subscription).await, "main-3");
}

#[tokio::test(start_paused = true)]
async fn poller_without_subscribers_is_idle() {
    let (fake, poller) = poller();
    fake.set("hanging", ServerBehaviour::Hangs);
    let subscriptions: Vec<_> = (0..50)
        .map(|number| {
            poller.subscribe(
                "tenant",
                ("good", number % 10, "me"),
                "main".to_owned(),
                MINUTE,
            )
        })
        .collect();
    let stuck = subscribe(&poller, "hanging", "main");
    sleep(MINUTE / 2).await;
    let counts = poller.counts();
    assert_eq!((counts.repositories, counts.subscribers), (11, 51));
    drop(subscriptions);
    drop(stuck);
    let counts = poller.counts();
    assert_eq!((counts.repositories, counts.subscribers), (0, 0));
    sleep(2 * MINUTE).await;
    assert_eq!(poller.counts().in_flight, 0, "what hung is over");
    fake.take_requests();
    sleep(10 * MINUTE).await;
    assert_eq!(fake.take_requests().len(), 0);
    // A dropped poller sends no requests.
    let left = subscribe(&poller, "good", "main");
    drop(poller);
    sleep(10 * MINUTE).await;
    assert_eq!(fake.take_requests().len(), 0);
    assert!(left.status().commit.is_none());
}
