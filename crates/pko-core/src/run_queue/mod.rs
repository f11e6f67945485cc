//! The run queue: which run goes next, and why the others wait.
//!
//! A run may go if no other is under way on the same stack of the same backend, and neither the cluster nor
//! its namespace is at its limit. Among those that may, the namespace with the fewest runs under way goes
//! first, so that none is kept waiting by another's flood; then the one with the more urgent run, or that was
//! served longest ago; within a namespace the more urgent run, or the one that came first.
//!
//! # Guarantees
//! - Nobody waits for ever: urgency is a head start of [`HEAD_START`] places, no more, so that a run is overtaken
//!   by so many and not by all that ever come.
//! - Nobody waits for nothing: whoever may go has gone after each call, and is in what it returns.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
};

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

pub use pko_api::names::urgencies::Urgency;

/// Where a stack's state is, and its name there: of one of them there is one run at a time.
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
    /// It goes. Whoever is told so gives the turn back with [`RunQueue::leave`].
    Admitted,
    /// It waits.
    Queued(QueueWait),
}

/// Why a run waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueWait {
    /// How many go before it, as far as one can tell.
    pub before: usize,
    /// What holds it up.
    pub reason: WaitReason,
}

/// What holds a run up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// Another run is under way on the same stack.
    Stack(String),
    /// The namespace is at its limit.
    Namespace(usize),
    /// The cluster is at its limit.
    Cluster(usize),
}

impl fmt::Display for QueueWait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = |count: usize| if count == 1 { "run is" } else { "runs are" };
        match &self.reason {
            WaitReason::Stack(stack) => {
                write!(
                    formatter,
                    "waiting for its turn: another run is under way on the stack \"{stack}\""
                )?;
            }
            WaitReason::Namespace(limit) => write!(
                formatter,
                "waiting for its turn: {limit} {} under way in this namespace, which is the limit",
                runs(*limit)
            )?,
            WaitReason::Cluster(limit) => write!(
                formatter,
                "waiting for its turn: {limit} {} under way in the cluster, which is the limit",
                runs(*limit)
            )?,
        }
        match self.before {
            0 => write!(formatter, "; it is the next"),
            before => write!(formatter, "; {before} {} before it", runs(before)),
        }
    }
}

/// All runs that wait or are under way.
#[derive(Clone, Debug, Default)]
pub struct RunQueue {
    limits: Limits,
    /// In the order in which they came.
    waiting: BTreeMap<u64, RunRequest>,
    under_way: HashMap<String, RunRequest>,
    /// What is known of the namespaces that have something here.
    namespaces: HashMap<String, Account>,
    /// The stacks that are busy. Two runs on one are possible only where both were under way already.
    busy: HashMap<StackKey, usize>,
    clock: u64,
}

/// How many runs a namespace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// They wait for their turn.
    pub waiting: usize,
    /// It is their turn.
    pub under_way: usize,
}

/// Where a request stands: the lower, the sooner. The namespace's part first, then its own.
type Rank = (usize, i128, i128, u64);

/// What is known of a namespace.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    under_way: usize,
    /// When it was served last.
    served: u64,
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

    /// Asks for a turn, again and again until there is one. Asking twice is asking once; the last word on
    /// the urgency counts.
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

    /// A run that is under way already, whatever the limits: the manager was started anew, or they were
    /// lowered. Returns those whose turn it is now, which are some only if the run moved.
    pub fn resume(&mut self, request: RunRequest) -> Vec<String> {
        self.waiting.retain(|_, waiting| waiting.run != request.run);
        self.begin(request);
        self.admit()
    }

    /// The run has ended, or is not wanted any more. Returns those whose turn it is now.
    pub fn leave(&mut self, run: &str) -> Vec<String> {
        self.waiting.retain(|_, waiting| waiting.run != run);
        self.end(run);
        let admitted = self.admit();
        self.forget_namespaces();
        admitted
    }

    /// How many wait and how many are under way, for those who watch.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.waiting.len(), self.under_way.len())
    }

    /// The same for each namespace.
    #[must_use]
    pub fn counts_by_namespace(&self) -> BTreeMap<&str, Counts> {
        let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
        for request in self.waiting.values() {
            counts.entry(&request.namespace).or_default().waiting += 1;
        }
        for request in self.under_way.values() {
            counts.entry(&request.namespace).or_default().under_way += 1;
        }
        counts
    }

    fn enqueue(&mut self, request: RunRequest) -> u64 {
        let mut waiting = self.waiting.iter_mut();
        if let Some((place, waiting)) = waiting.find(|(_, other)| other.run == request.run) {
            *waiting = request;
            return *place;
        }
        self.clock += 1;
        self.waiting.insert(self.clock, request);
        self.clock
    }

    /// Lets everyone go who may, best first.
    fn admit(&mut self) -> Vec<String> {
        let mut admitted = Vec::new();
        while let Some(place) = self.next() {
            if let Some(request) = self.waiting.remove(&place) {
                admitted.push(request.run.clone());
                self.begin(request);
            }
        }
        admitted
    }

    fn begin(&mut self, request: RunRequest) {
        self.end(&request.run);
        self.clock += 1;
        let account = self
            .namespaces
            .entry(request.namespace.clone())
            .or_default();
        account.under_way += 1;
        account.served = self.clock;
        *self.busy.entry(request.stack.clone()).or_default() += 1;
        self.under_way.insert(request.run.clone(), request);
    }

    fn end(&mut self, run: &str) {
        let Some(request) = self.under_way.remove(run) else {
            return;
        };
        if let Some(account) = self.namespaces.get_mut(&request.namespace) {
            account.under_way = account.under_way.saturating_sub(1);
        }
        if let Some(count) = self.busy.get_mut(&request.stack) {
            *count = count.saturating_sub(1);
        }
        self.busy.retain(|_, count| *count > 0);
    }

    /// The best of those that may go.
    fn next(&self) -> Option<u64> {
        let may_go = |(_, request): &(&u64, &RunRequest)| self.obstacle(request).is_none();
        let urgent = most_urgent(self.waiting.iter().filter(may_go));
        let rank = |(place, request): &(&u64, &RunRequest)| self.rank(**place, request, &urgent);
        let best = self.waiting.iter().filter(may_go).min_by_key(rank);
        best.map(|(place, _)| *place)
    }

    fn rank(&self, place: u64, request: &RunRequest, urgent: &HashMap<&str, Urgency>) -> Rank {
        let namespace = request.namespace.as_str();
        let account = self.account(namespace);
        let urgent = urgent.get(namespace).copied().unwrap_or(request.urgency);
        (
            account.under_way,
            i128::from(account.served) - head_start(urgent),
            i128::from(place) - head_start(request.urgency),
            place,
        )
    }

    fn account(&self, namespace: &str) -> Account {
        self.namespaces.get(namespace).copied().unwrap_or_default()
    }

    fn obstacle(&self, request: &RunRequest) -> Option<WaitReason> {
        let is_at = |limit: Option<usize>, count: usize| limit.filter(|limit| count >= *limit);
        if self.busy.contains_key(&request.stack) {
            return Some(WaitReason::Stack(request.stack.stack.clone()));
        }
        if let Some(limit) = is_at(self.limits.cluster, self.under_way.len()) {
            return Some(WaitReason::Cluster(limit));
        }
        is_at(
            self.limits.namespace,
            self.account(&request.namespace).under_way,
        )
        .map(WaitReason::Namespace)
    }

    fn wait(&self, place: u64, request: &RunRequest) -> QueueWait {
        let reason = self
            .obstacle(request)
            .unwrap_or(WaitReason::Stack(request.stack.stack.clone()));
        let contends = |(_, other): &(&u64, &RunRequest)| match &reason {
            WaitReason::Stack(_) => other.stack == request.stack,
            WaitReason::Namespace(_) => other.namespace == request.namespace,
            WaitReason::Cluster(_) => true,
        };
        let urgent = most_urgent(self.waiting.iter().filter(contends));
        let rank = self.rank(place, request, &urgent);
        let is_before =
            |(other, waiting): &(&u64, &RunRequest)| self.rank(**other, waiting, &urgent) < rank;
        let contenders = self.waiting.iter().filter(contends);
        let before = contenders.filter(is_before).count();
        QueueWait { before, reason }
    }

    /// What is remembered of a namespace goes with its last run.
    fn forget_namespaces(&mut self) {
        let present: HashSet<&str> = self
            .waiting
            .values()
            .map(|run| run.namespace.as_str())
            .collect();
        self.namespaces.retain(|namespace, account| {
            account.under_way > 0 || present.contains(namespace.as_str())
        });
    }
}

/// The places that urgency is worth.
fn head_start(urgency: Urgency) -> i128 {
    let level = match urgency {
        Urgency::Resync => 0,
        Urgency::Request => 1,
        Urgency::Change => 2,
        Urgency::Destroy => 3,
    };
    i128::from(HEAD_START) * level
}

/// How urgent the most urgent request of each namespace is.
fn most_urgent<'all>(
    requests: impl Iterator<Item = (&'all u64, &'all RunRequest)>,
) -> HashMap<&'all str, Urgency> {
    let mut urgent: HashMap<&str, Urgency> = HashMap::new();
    for (_, request) in requests {
        let known = urgent.entry(&request.namespace).or_insert(request.urgency);
        *known = request.urgency.max(*known);
    }
    urgent
}
