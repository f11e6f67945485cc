//! The run queue: which run goes next, and why the others wait.
//!
//! A run may go if no other of its namespace is under way on the same stack of the same backend,
//! and neither the cluster nor its namespace is at its limit. Among those that may, the namespace
//! with the fewest runs under way goes first, so that none is kept waiting by another's flood; then
//! the one with the more urgent run, or that was served longest ago; within a namespace the more
//! urgent run, or the one that came first.
//!
//! Runs of two namespaces on one stack are not ordered here: a name proves nothing about who owns
//! the stack, so that one namespace could hold up another by it. Pulumi's own lock orders them.
//!
//! # Guarantees
//! - No run waits for ever: urgency is a head start of [`HEAD_START`] places, no more, so that a
//!   run is overtaken by so many and not by all that ever come.
//! - No run waits without a reason: a run that may go has gone after each call, and is in what it
//!   returns.
//! - A call takes logarithmic time in the number of runs.

mod namespace;
#[cfg(test)]
mod tests;
mod wait;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use self::namespace::{NamespaceQueue, NamespaceRank, QueueOrder};
pub use self::wait::{QueuePosition, QueueWait, WaitReason};
pub use pko_api::names::urgencies::Urgency;

/// How many places a run is ahead of one that is less urgent by one level.
pub const HEAD_START: u64 = 1024;

/// How many runs may be under way; nothing for any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// In the whole cluster.
    pub cluster: Option<usize>,
    /// In each namespace.
    pub namespace: Option<usize>,
}

impl Limits {
    /// Derives the limit of a namespace from that of the cluster: three quarters, so that runs of
    /// one namespace, however long they take, leave places to the others.
    #[must_use]
    pub fn of_cluster(cluster: Option<usize>) -> Self {
        let share = |limit: usize| limit.saturating_sub((limit / 4).max(1));
        Self {
            cluster,
            namespace: cluster.map(share).filter(|share| *share > 0),
        }
    }
}

/// Where a stack's state is, and its name there: of one of them a namespace has one run at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackKey {
    /// The backend, as well as it is known.
    pub backend: String,
    /// The stack's full name.
    pub stack: String,
}

/// A run that wants to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    /// Who asks: the uid of the Update.
    pub run: String,
    /// In which namespace.
    pub namespace: String,
    /// On which stack.
    pub stack: StackKey,
    /// How urgently.
    pub urgency: Urgency,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It goes, and takes a slot until [`RunQueue::leave`].
    Admitted,
    /// It waits.
    Queued(QueueWait),
}

/// All runs that wait or are under way.
#[derive(Clone, Debug, Default)]
pub struct RunQueue {
    limits: Limits,
    /// By place, which grows with each run that comes.
    waiting: BTreeMap<u64, RunRequest>,
    /// The places of the runs that wait.
    places: HashMap<String, u64>,
    under_way: HashMap<String, RunRequest>,
    /// Those that have a run here.
    namespaces: HashMap<String, NamespaceQueue>,
    /// The namespaces below their limit that have a run on a free stack, best first.
    eligible: BTreeSet<NamespaceRank>,
    clock: u64,
}

impl RunQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Asks for admission, again and again until it is granted. Asking twice is asking once; the
    /// last urgency counts.
    pub fn ask(&mut self, request: RunRequest) -> Admission {
        if self.under_way.contains_key(&request.run) {
            return Admission::Admitted;
        }
        let place = self.enqueue(request);
        self.admit();
        match self.waiting.get(&place) {
            None => Admission::Admitted,
            Some(request) => Admission::Queued(self.wait(place, request)),
        }
    }

    /// A run that is under way already, whatever the limits: the manager was started anew, or they
    /// were lowered. Returns the runs that are admitted now, which are some only if the run moved.
    pub fn resume(&mut self, request: RunRequest) -> Vec<String> {
        self.dequeue(&request.run);
        self.begin(request);
        self.admit()
    }

    /// The run has ended, or is not wanted any more. Returns the runs that are admitted now.
    pub fn leave(&mut self, run: &str) -> Vec<String> {
        self.dequeue(run);
        self.end(run);
        self.admit()
    }

    /// How many wait and how many are under way.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting.len(), self.under_way.len())
    }

    fn enqueue(&mut self, request: RunRequest) -> u64 {
        let place = match self.places.get(&request.run).copied() {
            Some(place) if self.waiting.get(&place) == Some(&request) => return place,
            Some(place) => {
                self.dequeue(&request.run);
                place
            }
            None => {
                self.clock += 1;
                self.clock
            }
        };
        let order = QueueOrder::new(place, request.urgency);
        self.change(&request.namespace, |queue| {
            queue.enqueue(&request.stack, order);
        });
        self.places.insert(request.run.clone(), place);
        self.waiting.insert(place, request);
        place
    }

    fn dequeue(&mut self, run: &str) {
        let place = self.places.remove(run);
        if let Some(request) = place.and_then(|place| self.waiting.remove(&place)) {
            let order = QueueOrder::new(place.unwrap_or_default(), request.urgency);
            self.change(&request.namespace, |queue| {
                queue.dequeue(&request.stack, order);
            });
        }
    }

    /// Admits all that may go, best first.
    fn admit(&mut self) -> Vec<String> {
        let mut admitted = Vec::new();
        while let Some(request) = self.next().and_then(|place| self.waiting.get(&place)) {
            let request = request.clone();
            admitted.push(request.run.clone());
            self.dequeue(&request.run);
            self.begin(request);
        }
        admitted
    }

    /// The best of those that may go.
    fn next(&self) -> Option<u64> {
        let is_full = self.cluster_limit().is_some();
        let best = self.eligible.first().filter(|_| !is_full)?;
        Some(best.place())
    }

    fn begin(&mut self, request: RunRequest) {
        self.end(&request.run);
        self.clock += 1;
        let clock = self.clock;
        self.change(&request.namespace, |queue| {
            queue.begin(&request.stack, clock);
        });
        self.under_way.insert(request.run.clone(), request);
    }

    fn end(&mut self, run: &str) {
        if let Some(request) = self.under_way.remove(run) {
            self.change(&request.namespace, |queue| queue.end(&request.stack));
        }
    }

    /// Changes the queue of a namespace and its rank. What is remembered of a namespace is dropped
    /// with its last run.
    fn change(&mut self, namespace: &str, change: impl FnOnce(&mut NamespaceQueue)) {
        let queue = self.namespaces.entry(namespace.to_owned()).or_default();
        if let Some(rank) = queue.rank(namespace, self.limits.namespace) {
            self.eligible.remove(&rank);
        }
        change(queue);
        if queue.is_empty() {
            self.namespaces.remove(namespace);
        } else if let Some(rank) = queue.rank(namespace, self.limits.namespace) {
            self.eligible.insert(rank);
        }
    }

    /// The limit of the cluster, if it is reached.
    fn cluster_limit(&self) -> Option<usize> {
        let limit = self.limits.cluster;
        limit.filter(|limit| self.under_way.len() >= *limit)
    }
}
