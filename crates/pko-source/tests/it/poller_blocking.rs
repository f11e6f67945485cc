//! The poller with a blocking lister, on real threads.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use pko_source::poll::{
    Blocking, BlockingLister, ListRequest, ListResponse, Poller, PollerSettings,
};

const MINUTE: Duration = Duration::from_mins(1);

/// Blocks until it is opened, and counts concurrent calls.
#[derive(Clone, Default)]
struct GateLister(Arc<(Mutex<GateState>, Condvar)>);

#[derive(Default)]
struct GateState {
    inside: usize,
    most: usize,
    open: bool,
}

impl BlockingLister for GateLister {
    type Repository = usize;
    type Revision = &'static str;
    type Commit = usize;
    type Error = String;

    fn host(&self, repository: &usize) -> String {
        repository.to_string()
    }

    fn list(&self, request: ListRequest<Blocking<Self>>) -> ListResponse<Blocking<Self>> {
        let (counts, changed) = &*self.0;
        let mut counts = counts.lock().unwrap();
        counts.inside += 1;
        counts.most = counts.most.max(counts.inside);
        changed.notify_all();
        let mut counts = changed.wait_while(counts, |counts| !counts.open).unwrap();
        counts.inside -= 1;
        Ok(request
            .revisions
            .iter()
            .map(|_| Ok(request.repository))
            .collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_lister_threads_are_limited() {
    let gate = GateLister::default();
    let settings = PollerSettings {
        debounce: Duration::from_millis(1),
        ..PollerSettings::default()
    };
    let poller = Poller::start(Blocking::new(gate.clone(), 3), settings);
    let subscriptions: Vec<_> = (0..10)
        .map(|number| poller.subscribe("tenant", number, "main", MINUTE))
        .collect();
    let other = gate.clone();
    let waiting = tokio::task::spawn_blocking(move || {
        let (counts, changed) = &*other.0;
        let counts = counts.lock().unwrap();
        let mut counts = changed
            .wait_while(counts, |counts| counts.inside < 3)
            .unwrap();
        counts.open = true;
        changed.notify_all();
    });
    waiting.await.unwrap();
    for (number, mut subscription) in subscriptions.into_iter().enumerate() {
        assert_eq!(subscription.changed().await.commit, Some(number));
    }
    assert_eq!(gate.0.0.lock().unwrap().most, 3);
}
