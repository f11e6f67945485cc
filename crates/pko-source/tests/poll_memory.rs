//! What the poller needs for a thousand repositories. The one test of its process, as others would be counted too.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use pko_source::poll::{Answer, Blocking, BlockingLister, Poller, Question, Settings};

const MINUTE: Duration = Duration::from_mins(1);

/// Answers at once, for a great many repositories.
struct Quick(Arc<AtomicUsize>);

impl BlockingLister for Quick {
    type Repository = String;
    type Revision = String;
    type Commit = String;
    type Error = String;

    fn host(&self, repository: &String) -> String {
        repository.split('/').nth(2).unwrap_or_default().to_owned()
    }

    fn list(&self, question: Question<Blocking<Self>>) -> Answer<Blocking<Self>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let commit = "5ba93c9db0cff93f52b521d7420e43f6eda2784f";
        Ok(question
            .revisions
            .iter()
            .map(|_| Ok(commit.to_owned()))
            .collect())
    }
}

/// What the kernel counts as ours, in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The bound is the goal's for the whole operator; the measured figure is printed.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_repositories_need_little_memory() {
    let asked = Arc::new(AtomicUsize::new(0));
    let settings = Settings::default();
    let lister = Blocking::new(Quick(Arc::clone(&asked)), settings.places);
    let poller = Poller::start(lister, settings);
    let before = resident();
    let mut subscriptions: Vec<_> = (0..1000)
        .map(|number| {
            let address = format!(
                "https://git-{}.example.com/team/app-{number}.git",
                number % 50
            );
            poller.subscribe(address, "refs/heads/main".to_owned(), MINUTE)
        })
        .collect();
    for subscription in &mut subscriptions {
        assert!(subscription.changed().await.commit.is_some());
    }
    let grown = resident().saturating_sub(before);
    println!("1,000 repositories: {grown} KiB");
    assert_eq!(asked.load(Ordering::SeqCst), 1000);
    assert!(grown < 5 * 1024, "{grown} KiB");
}
