//! The poller with a lister that does what a test says. The clock is tokio's own, which jumps: nothing here waits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use pko_source::poll::{
    Answer, ListFailure, Lister, PollError, Poller, Question, Settings, Subscription,
};
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_mins(1);

/// What a server does.
#[derive(Clone)]
enum Server {
    /// Each revision is at its own name with a number.
    At(u32),
    Hangs,
    Fails(&'static str, Option<Duration>),
    Crashes,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<World>>);

#[derive(Default)]
struct World {
    servers: HashMap<&'static str, Server>,
    asked: Vec<Asked>,
}

#[derive(Clone, Debug)]
struct Asked {
    repository: Repository,
    revisions: usize,
    at: Instant,
}

/// The server, the path and who asks.
type Repository = (&'static str, u32, &'static str);

impl Fake {
    fn set(&self, host: &'static str, server: Server) {
        self.0.lock().unwrap().servers.insert(host, server);
    }

    /// The questions since the last time somebody asked this.
    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }
}

impl Lister for Fake {
    type Repository = Repository;
    type Revision = String;
    type Commit = String;
    type Error = String;

    fn host(&self, repository: &Repository) -> String {
        repository.0.to_owned()
    }

    async fn list(&self, question: Question<Self>) -> Answer<Self> {
        let server = {
            let mut world = self.0.lock().unwrap();
            world.asked.push(Asked {
                repository: question.repository,
                revisions: question.revisions.len(),
                at: Instant::now(),
            });
            let server = world.servers.get(question.repository.0);
            server.cloned().unwrap_or(Server::At(1))
        };
        sleep(Duration::from_millis(300)).await;
        match server {
            Server::At(number) => Ok(question
                .revisions
                .into_iter()
                .map(|revision| match revision.as_str() {
                    "gone" => Err("no such revision".to_owned()),
                    _ => Ok(format!("{revision}-{number}")),
                })
                .collect()),
            Server::Hangs => std::future::pending().await,
            Server::Crashes => panic!("a bug"),
            Server::Fails(error, retry_after) => Err(ListFailure {
                error: error.to_owned(),
                retry_after,
            }),
        }
    }
}

fn poller() -> (Fake, Poller<Fake>) {
    let fake = Fake::default();
    let poller = Poller::with_seed(fake.clone(), Settings::default(), 1);
    (fake, poller)
}

/// Somebody who wants to know what a branch is.
fn subscribe(poller: &Poller<Fake>, host: &'static str, branch: &str) -> Subscription<Fake> {
    poller.subscribe((host, 0, "me"), branch.to_owned(), MINUTE)
}

async fn next_commit(subscription: &mut Subscription<Fake>) -> String {
    loop {
        let status = subscription.changed().await;
        if let (Some(commit), None) = (status.commit, status.failure) {
            return commit;
        }
    }
}

async fn next_error(subscription: &mut Subscription<Fake>) -> PollError<String> {
    loop {
        if let Some(failure) = subscription.changed().await.failure {
            return (*failure.error).clone();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_is_seen_by_a_hundred_with_one_question() {
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
    let asked = fake.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].revisions, 100);

    // Three intervals in which nothing happens.
    sleep(3 * MINUTE).await;
    let questions = fake.asked().len();
    assert!((2..=4).contains(&questions), "{questions} questions");
    for subscription in &mut subscriptions {
        let quiet = tokio::time::timeout(Duration::ZERO, subscription.changed()).await;
        assert!(quiet.is_err(), "nobody is told what did not change");
    }

    fake.set("git.example.com", Server::At(2));
    for (number, subscription) in subscriptions.iter_mut().enumerate() {
        assert_eq!(
            next_commit(subscription).await,
            format!("branch-{number}-2")
        );
    }
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn somebody_else_asks_for_himself() {
    let (fake, poller) = poller();
    let repository = |who| ("git.example.com", 0, who);
    let mut mine = poller.subscribe(repository("me"), "main".to_owned(), MINUTE);
    let mut yours = poller.subscribe(repository("you"), "main".to_owned(), MINUTE);
    next_commit(&mut mine).await;
    next_commit(&mut yours).await;
    assert_eq!(fake.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_later_has_what_is_known_at_once() {
    let (fake, poller) = poller();
    let mut first = subscribe(&poller, "git.example.com", "main");
    next_commit(&mut first).await;
    fake.asked();
    let second = subscribe(&poller, "git.example.com", "main");
    assert_eq!(second.status().commit.as_deref(), Some("main-1"));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fake.asked().len(), 0, "there was nothing to ask");
    // Another branch is asked for soon, not after the interval.
    let begin = Instant::now();
    let mut third = subscribe(&poller, "git.example.com", "other");
    assert_eq!(next_commit(&mut third).await, "other-1");
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn whoever_is_told_to_look_now_has_the_server_asked() {
    let (fake, poller) = poller();
    let anew = || poller.subscribe_anew(("git.example.com", 0, "me"), "main".to_owned(), MINUTE);
    let mut first = subscribe(&poller, "git.example.com", "main");
    next_commit(&mut first).await;
    fake.set("git.example.com", Server::At(2));
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
    // Nor does it count that the server failed a moment ago.
    fake.set("git.example.com", Server::Fails("no route", None));
    next_error(&mut first).await;
    fake.set("git.example.com", Server::At(3));
    let begin = Instant::now();
    assert_eq!(next_commit(&mut anew()).await, "main-3");
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_failure_keeps_the_commit_and_a_recovery_is_told() {
    let (fake, poller) = poller();
    let mut subscription = subscribe(&poller, "git.example.com", "main");
    next_commit(&mut subscription).await;
    fake.set("git.example.com", Server::Fails("no route", None));
    let error = next_error(&mut subscription).await;
    assert_eq!(error, PollError::Lister("no route".to_owned()));
    assert_eq!(subscription.status().commit.as_deref(), Some("main-1"));
    let since = subscription.status().failure.unwrap().since;
    fake.set("git.example.com", Server::Fails("denied", None));
    next_error(&mut subscription).await;
    assert_eq!(subscription.status().failure.unwrap().since, since);
    // Whoever comes now sees at once what is wrong, without a question.
    fake.asked();
    let late = subscribe(&poller, "git.example.com", "other");
    let status = late.status();
    assert!(status.commit.is_none());
    assert_eq!(status.failure.unwrap().error.to_string(), "denied");
    sleep(Duration::from_secs(5)).await;
    assert_eq!(fake.asked().len(), 0);
    fake.set("git.example.com", Server::At(2));
    assert_eq!(next_commit(&mut subscription).await, "main-2");
    assert!(subscription.status().failure.is_none());
    assert_eq!(late.status().commit.as_deref(), Some("other-2"));
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_not_there_is_no_trouble_of_the_servers() {
    let (fake, poller) = poller();
    let mut main = subscribe(&poller, "git.example.com", "main");
    let mut gone = subscribe(&poller, "git.example.com", "gone");
    assert_eq!(next_commit(&mut main).await, "main-1");
    let error = next_error(&mut gone).await;
    assert_eq!(error, PollError::Lister("no such revision".to_owned()));
    fake.asked();
    sleep(3 * MINUTE).await;
    let questions = fake.asked().len();
    assert!(
        (2..=4).contains(&questions),
        "the usual interval: {questions}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_to_be_left_alone_is() {
    let (fake, poller) = poller();
    fake.set(
        "git.example.com",
        Server::Fails("slow down", Some(20 * MINUTE)),
    );
    let mut subscription = subscribe(&poller, "git.example.com", "main");
    next_error(&mut subscription).await;
    fake.asked();
    poller.poll_now(|_| true);
    sleep(19 * MINUTE).await;
    assert_eq!(fake.asked().len(), 0);
    sleep(2 * MINUTE).await;
    assert_eq!(fake.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_hint_asks_at_once_and_only_there() {
    let (fake, poller) = poller();
    let mut here = subscribe(&poller, "here.example.com", "main");
    let mut there = subscribe(&poller, "there.example.com", "main");
    next_commit(&mut here).await;
    next_commit(&mut there).await;
    sleep(Duration::from_secs(5)).await;
    fake.asked();
    fake.set("here.example.com", Server::At(2));
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
    let asked = fake.asked();
    assert!(asked.len() <= 2, "{asked:?}");
    assert!(
        asked
            .iter()
            .all(|asked| asked.repository.0 == "here.example.com")
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_delays_only_its_own() {
    const HANGING: [&str; 100] = ["hanging"; 100];
    let (fake, poller) = poller();
    let mut good = subscribe(&poller, "good.example.com", "main");
    next_commit(&mut good).await;
    // A hundred repositories of one server that hangs, and forty other servers that do.
    fake.set("hanging", Server::Hangs);
    let mut stuck = Vec::new();
    for (number, host) in (0..).zip(HANGING) {
        stuck.push(poller.subscribe((host, number, "me"), "main".to_owned(), MINUTE));
    }
    for host in others() {
        fake.set(host, Server::Hangs);
        stuck.push(subscribe(&poller, host, "main"));
    }
    sleep(30 * MINUTE).await;
    let asked = fake.asked();
    let times: Vec<_> = asked
        .iter()
        .filter(|asked| asked.repository.0 == "good.example.com")
        .map(|asked| asked.at)
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
    let most = poller.counts().under_way;
    assert!(most <= 16, "half of the places are left: {most}");
    // Each of them was asked, and is told.
    for subscription in &mut stuck {
        assert_eq!(next_error(subscription).await, PollError::Deadline);
    }
}

fn others() -> impl Iterator<Item = &'static str> {
    (0..40).map(|number| &*format!("hanging-{number}.example.com").leak())
}

#[tokio::test(start_paused = true)]
async fn a_thousand_repositories_are_asked_once_in_each_interval() {
    let (fake, poller) = poller();
    let hosts: Vec<&'static str> = others().collect();
    let subscriptions: Vec<_> = (0..1000)
        .map(|number| {
            let host = hosts[number as usize % hosts.len()];
            poller.subscribe((host, number, "me"), "main".to_owned(), MINUTE)
        })
        .collect();
    sleep(MINUTE / 2).await;
    assert_eq!(fake.asked().len(), 1000);
    sleep(10 * MINUTE).await;
    let questions = fake.asked().len();
    assert!((8_500..=11_500).contains(&questions), "{questions}");
    assert!(
        subscriptions
            .iter()
            .all(|one| one.status().commit.is_some())
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_that_crashes_is_asked_again() {
    let (fake, poller) = poller();
    fake.set("git.example.com", Server::Crashes);
    let mut subscription = subscribe(&poller, "git.example.com", "main");
    assert_eq!(next_error(&mut subscription).await, PollError::Crashed);
    fake.set("git.example.com", Server::At(3));
    assert_eq!(next_commit(&mut subscription).await, "main-3");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_when_everybody_is_gone() {
    let (fake, poller) = poller();
    fake.set("hanging", Server::Hangs);
    let subscriptions: Vec<_> = (0..50)
        .map(|number| poller.subscribe(("good", number % 10, "me"), "main".to_owned(), MINUTE))
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
    assert_eq!(poller.counts().under_way, 0, "what hung is over");
    fake.asked();
    sleep(10 * MINUTE).await;
    assert_eq!(fake.asked().len(), 0);
    // A poller that is gone asks nothing.
    let left = subscribe(&poller, "good", "main");
    drop(poller);
    sleep(10 * MINUTE).await;
    assert_eq!(fake.asked().len(), 0);
    assert!(left.status().commit.is_none());
}
