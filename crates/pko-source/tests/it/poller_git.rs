//! The poller with real and with misbehaving git servers.

use std::time::Duration;

use pko_auth::Redacted;
use pko_source::{
    git::{Address, Credentials, GitClient, HttpSettings, Revision, SshKey},
    poll::{Blocking, GitLister, GitRepository, Poller, PollerSettings, Subscription},
    ssh::KnownHostsFiles,
};
use pko_testkit::git_server::{
    Fault, GitServer, TestFile, TestRepository,
    sshd::{KeyPair, Sshd},
};
use tempfile::TempDir;

const INTERVAL: Duration = Duration::from_secs(1);

type GitPoller = Poller<Blocking<GitLister>>;
type GitSubscription = Subscription<Blocking<GitLister>>;

fn poller() -> GitPoller {
    let client = GitClient::from_environment(&HttpSettings::default()).unwrap();
    let settings = PollerSettings {
        min_interval: INTERVAL,
        debounce: Duration::from_millis(50),
        initial_backoff: Duration::from_millis(50),
        ..PollerSettings::default()
    };
    let lister = GitLister::new(client, KnownHostsFiles::default());
    Poller::start(Blocking::new(lister, settings.max_in_flight), settings)
}

fn served() -> (TempDir, TestRepository, GitServer) {
    let folder = tempfile::tempdir().unwrap();
    let repository = TestRepository::create(folder.path(), "app.git").unwrap();
    let server = GitServer::start(folder.path()).unwrap();
    (folder, repository, server)
}

fn repository(url: &str, credentials: Credentials) -> GitRepository {
    GitRepository {
        address: Address::parse(url).unwrap(),
        credentials,
        known_hosts: None,
    }
}

fn revision(text: &str) -> Revision {
    Revision::parse(text).unwrap()
}

fn push(repository: &TestRepository, text: &str) -> String {
    repository
        .commit("main", &[TestFile::plain("file", text)])
        .unwrap()
}

async fn reaches(subscription: &mut GitSubscription, commit: &str) {
    loop {
        let status = subscription.status();
        if status
            .commit
            .is_some_and(|found| found.to_string() == commit)
            && status.failure.is_none()
        {
            return;
        }
        subscription.changed().await;
    }
}

async fn failure(subscription: &mut GitSubscription) -> String {
    loop {
        if let Some(failure) = subscription.status().failure {
            return failure.error.to_string();
        }
        subscription.changed().await;
    }
}

/// The number of requests to the server.
fn lists(server: &GitServer) -> usize {
    server.take_requests().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn push_reaches_hundred_subscribers_with_one_request() {
    let (_folder, test_repository, server) = served();
    let first = push(&test_repository, "first");
    let poller = poller();
    let repository = repository(&server.url("app.git"), Credentials::Anonymous);
    let mut subscriptions: Vec<_> = (0..100)
        .map(|_| {
            poller.subscribe(
                "tenant",
                repository.clone(),
                revision("main"),
                Duration::from_hours(1),
            )
        })
        .collect();
    for subscription in &mut subscriptions {
        reaches(subscription, &first).await;
    }
    // Over HTTP, a list takes two requests: the advertisement and `ls-refs`.
    assert_eq!(lists(&server), 2);
    let second = push(&test_repository, "second");
    poller.poll_now(|_| true);
    for subscription in &mut subscriptions {
        reaches(subscription, &second).await;
    }
    assert_eq!(lists(&server), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn push_is_seen_after_interval() {
    let (_folder, test_repository, server) = served();
    let first = push(&test_repository, "first");
    let poller = poller();
    let repository = repository(&server.url("app.git"), Credentials::Anonymous);
    let mut subscription = poller.subscribe("tenant", repository, revision("main"), INTERVAL);
    reaches(&mut subscription, &first).await;
    let second = push(&test_repository, "second");
    reaches(&mut subscription, &second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_credentials_are_another_request() {
    let (_folder, test_repository, server) = served();
    let commit = push(&test_repository, "first");
    server.require("git", "right-canary");
    let poller = poller();
    let url = server.url("app.git");
    let token = |text: &str| Credentials::Token(Redacted::new(text.to_owned()));
    let subscribe = |text: &str| {
        poller.subscribe(
            "tenant",
            repository(&url, token(text)),
            revision("main"),
            Duration::from_hours(1),
        )
    };
    let (mut right, mut wrong) = (subscribe("right-canary"), subscribe("wrong-canary"));
    reaches(&mut right, &commit).await;
    let text = failure(&mut wrong).await;
    assert!(text.starts_with("authentication required"), "{text}");
    assert!(!text.contains("canary"), "{text}");
    assert!(right.status().failure.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_branch_suggests_a_name() {
    let (_folder, test_repository, server) = served();
    let commit = push(&test_repository, "first");
    let poller = poller();
    let repository = repository(&server.url("app.git"), Credentials::Anonymous);
    let subscribe = |text: &str| {
        poller.subscribe(
            "tenant",
            repository.clone(),
            revision(text),
            Duration::from_hours(1),
        )
    };
    let (mut good, mut bad) = (subscribe("refs/heads/main"), subscribe("refs/head/main"));
    reaches(&mut good, &commit).await;
    let text = failure(&mut bad).await;
    assert!(
        text.contains("no commits found for ref \"refs/head/main\""),
        "{text}"
    );
    assert!(text.contains("refs/heads/main"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_and_failing_servers_delay_only_themselves() {
    let (_folder, test_repository, server) = served();
    let (_other_folder, other_repository, other) = served();
    push(&test_repository, "first");
    let other_commit = push(&other_repository, "other");
    server.set_fault(Some(Fault::Hang));
    let poller = poller();
    let subscribe = |server: &GitServer| {
        let repository = repository(&server.url("app.git"), Credentials::Anonymous);
        poller.subscribe("tenant", repository, revision("main"), INTERVAL)
    };
    let (hanging, mut healthy) = (subscribe(&server), subscribe(&other));
    reaches(&mut healthy, &other_commit).await;
    assert!(hanging.status().commit.is_none());
    other.set_fault(Some(Fault::Status(500, Vec::new())));
    assert!(failure(&mut healthy).await.contains("500"));
    assert!(
        healthy.status().commit.is_some(),
        "the last good one is kept"
    );
    other.set_fault(None);
    reaches(&mut healthy, &other_commit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn poll_over_ssh_uses_known_hosts_of_secret() {
    let Some(sshd) = Sshd::start_default_or_skip().unwrap() else {
        return;
    };
    let (_folder, test_repository, _server) = served();
    let commit = push(&test_repository, "first");
    let pair = KeyPair::generate(&["-t", "ed25519"], "").unwrap();
    sshd.authorize(&pair.public).unwrap();
    let path = test_repository.path().display();
    let url = format!("ssh://{}@127.0.0.1:{}{path}", Sshd::user(), sshd.port());
    let key = Credentials::Ssh(SshKey {
        private_key: Redacted::new(pair.private.clone()),
        passphrase: None,
    });
    let poller = poller();
    let unknown = repository(&url, key);
    let known = GitRepository {
        known_hosts: Some(sshd.known_hosts()),
        ..unknown.clone()
    };
    let subscribe = |repository| {
        poller.subscribe(
            "tenant",
            repository,
            revision("main"),
            Duration::from_hours(1),
        )
    };
    let (mut known, mut unknown) = (subscribe(known), subscribe(unknown));
    reaches(&mut known, &commit).await;
    let text = failure(&mut unknown).await;
    assert!(text.contains("is unknown and presents the key"), "{text}");
}

/// Time and memory of a round. `PKO_FULL` uses a thousand repositories. For meaningful figures:
/// `PKO_FULL=1 cargo test --release -p pko-source --test it -- --nocapture poller_git::measures`
#[tokio::test(flavor = "multi_thread")]
async fn measures_polling_of_many_repositories() {
    let count = if std::env::var_os("PKO_FULL").is_some() {
        1000
    } else {
        20
    };
    let folder = tempfile::tempdir().unwrap();
    let first = TestRepository::create(folder.path(), "app-0.git").unwrap();
    let commit = push(&first, "first");
    for number in 1..count {
        let copy = folder.path().join(format!("app-{number}.git"));
        first
            .git(&["clone", "--quiet", "--bare", ".", copy.to_str().unwrap()])
            .unwrap();
    }
    let server = GitServer::start(folder.path()).unwrap();
    let poller = poller();
    let before = resident();
    let start = std::time::Instant::now();
    let mut subscriptions: Vec<_> = (0..count)
        .map(|number| {
            let url = server.url(&format!("app-{number}.git"));
            let repository = repository(&url, Credentials::Anonymous);
            poller.subscribe(
                "tenant",
                repository,
                revision("main"),
                Duration::from_hours(1),
            )
        })
        .collect();
    for subscription in &mut subscriptions {
        reaches(subscription, &commit).await;
    }
    let grown = resident().saturating_sub(before);
    println!(
        "{count} repositories: {:?}, {grown} KiB more, the server's part included",
        start.elapsed()
    );
}

/// Resident memory in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
