//! The poller with listers that block, on real threads.

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use pko_source::poll::{Answer, Blocking, BlockingLister, Poller, Question, Settings};

const MINUTE: Duration = Duration::from_mins(1);

/// Blocks until it is let go, and counts who does.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<Counts>, Condvar)>);

#[derive(Default)]
struct Counts {
    inside: usize,
    most: usize,
    open: bool,
}

impl BlockingLister for Gate {
    type Repository = usize;
    type Revision = &'static str;
    type Commit = usize;
    type Error = String;

    fn host(&self, repository: &usize) -> String {
        repository.to_string()
    }

    fn list(&self, question: Question<Blocking<Self>>) -> Answer<Blocking<Self>> {
        let (counts, changed) = &*self.0;
        let mut counts = counts.lock().unwrap();
        counts.inside += 1;
        counts.most = counts.most.max(counts.inside);
        changed.notify_all();
        let mut counts = changed.wait_while(counts, |counts| !counts.open).unwrap();
        counts.inside -= 1;
        Ok(question
            .revisions
            .iter()
            .map(|_| Ok(question.repository))
            .collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_only_so_many_threads() {
    let gate = Gate::default();
    let settings = Settings {
        moment: Duration::from_millis(1),
        ..Settings::default()
    };
    let poller = Poller::start(Blocking::new(gate.clone(), 3), settings);
    let subscriptions: Vec<_> = (0..10)
        .map(|number| poller.subscribe(number, "main", MINUTE))
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
