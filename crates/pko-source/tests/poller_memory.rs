//! Memory use of the poller for a thousand repositories. The only test of its process, because
//! others would be measured too.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use pko_source::poll::{
    Blocking, BlockingLister, ListRequest, ListResponse, Poller, PollerSettings,
};

const MINUTE: Duration = Duration::from_mins(1);

struct InstantLister(Arc<AtomicUsize>);

impl BlockingLister for InstantLister {
    type Repository = String;
    type Revision = String;
    type Commit = String;
    type Error = String;

    fn host(&self, repository: &String) -> String {
        repository.split('/').nth(2).unwrap_or_default().to_owned()
    }

    fn list(&self, request: ListRequest<Blocking<Self>>) -> ListResponse<Blocking<Self>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let commit = "5ba93c9db0cff93f52b521d7420e43f6eda2784f";
        Ok(request
            .revisions
            .iter()
            .map(|_| Ok(commit.to_owned()))
            .collect())
    }
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

/// The limit is the goal for the whole operator. The measured figure is printed.
#[tokio::test(flavor = "multi_thread")]
async fn thousand_repositories_need_little_memory() {
    let requests = Arc::new(AtomicUsize::new(0));
    let settings = PollerSettings::default();
    let lister = Blocking::new(InstantLister(Arc::clone(&requests)), settings.max_in_flight);
    let poller = Poller::start(lister, settings);
    let before = resident();
    let mut subscriptions: Vec<_> = (0..1000)
        .map(|number| {
            let address = format!(
                "https://git-{}.example.com/team/app-{number}.git",
                number % 50
            );
            poller.subscribe("tenant", address, "refs/heads/main".to_owned(), MINUTE)
        })
        .collect();
    for subscription in &mut subscriptions {
        assert!(subscription.changed().await.commit.is_some());
    }
    let grown = resident().saturating_sub(before);
    println!("1,000 repositories: {grown} KiB");
    assert_eq!(requests.load(Ordering::SeqCst), 1000);
    assert!(grown < 5 * 1024, "{grown} KiB");
}
