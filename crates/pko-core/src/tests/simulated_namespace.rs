//! A namespace with several Stacks, each in its own simulated cluster. An object is reconciled
//! after a watch event or at its requeue deadline, as by a controller.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use pko_api::{Stack, Update, Workspace};
use serde_json::Value;

use super::{
    invariants,
    simulated_cluster::{Crashed, SimulatedCluster, request},
};
use crate::Requeue;

/// An object of one of the clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Stack(usize),
    Workspace(usize),
    Update(usize, String),
}

/// The objects of a cluster at the last watch event.
#[derive(Clone, Debug, Default)]
struct WatchedObjects {
    stack: Option<Stack>,
    workspace: Option<Workspace>,
    updates: BTreeMap<String, Update>,
}

impl WatchedObjects {
    fn update_from(&mut self, cluster: &SimulatedCluster) {
        if self.stack != cluster.stack {
            self.stack.clone_from(&cluster.stack);
        }
        if self.workspace != cluster.workspace {
            self.workspace.clone_from(&cluster.workspace);
        }
        if self.updates != cluster.updates {
            self.updates.clone_from(&cluster.updates);
        }
    }
}

/// A namespace with several Stacks.
#[derive(Clone, Debug)]
pub(super) struct SimulatedNamespace {
    pub(super) clusters: Vec<SimulatedCluster>,
    /// When each object is reconciled next.
    due: BTreeMap<Key, Timestamp>,
    watched: Vec<WatchedObjects>,
    /// Whether changes of an object wake the objects that wait for it. Without that, only deadlines
    /// do.
    pub(super) is_watching: bool,
}

impl SimulatedNamespace {
    pub(super) fn new(stacks: &[(&str, Value)]) -> Self {
        let clusters: Vec<SimulatedCluster> = stacks
            .iter()
            .map(|(name, spec)| SimulatedCluster::named(name, spec))
            .collect();
        let mut namespace = Self {
            due: BTreeMap::new(),
            watched: vec![WatchedObjects::default(); clusters.len()],
            is_watching: true,
            clusters,
        };
        namespace.wake_changed();
        namespace
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clusters[0].now
    }

    pub(super) fn advance(&mut self, seconds: i64) {
        self.advance_to(self.now() + SignedDuration::from_secs(seconds));
    }

    fn advance_to(&mut self, time: Timestamp) {
        for cluster in &mut self.clusters {
            cluster.now = time;
        }
    }

    pub(super) fn writes(&self) -> usize {
        self.clusters.iter().map(|cluster| cluster.writes).sum()
    }

    /// The last writes, for the message of a failed walk.
    pub(super) fn journal(&self) -> String {
        let journals = self.clusters.iter().map(|cluster| {
            let status = cluster
                .stack
                .as_ref()
                .and_then(|stack| stack.status.as_ref());
            let conditions = status.map(|status| &status.conditions);
            let last = cluster.journal.iter().rev().take(30).rev();
            let last: Vec<&str> = last.map(String::as_str).collect();
            format!("{}\n{conditions:?}\n", last.join("\n"))
        });
        journals.collect()
    }

    /// When the Stack is due.
    pub(super) fn stack_is_due(&self, index: usize) -> Option<Timestamp> {
        self.due.get(&Key::Stack(index)).copied()
    }

    /// When the first Stack or Update is due.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let dues = self
            .due
            .iter()
            .filter(|(key, _)| !matches!(key, Key::Workspace(_)));
        dues.map(|(_, time)| *time).min()
    }

    /// Reconciles everything, as after the start of a manager or of its watches.
    pub(super) fn relist(&mut self) {
        let now = self.now();
        for key in self.objects() {
            self.due.insert(key, now);
        }
        self.wake_changed();
    }

    fn objects(&self) -> Vec<Key> {
        let of = |(index, cluster): (usize, &SimulatedCluster)| {
            let stack = cluster.stack.as_ref().map(|_| Key::Stack(index));
            let workspace = cluster.workspace.as_ref().map(|_| Key::Workspace(index));
            let updates = cluster.updates.keys();
            let updates = updates.map(move |name| Key::Update(index, name.clone()));
            let updates: Vec<Key> = updates.collect();
            stack.into_iter().chain(workspace).chain(updates)
        };
        self.clusters.iter().enumerate().flat_map(of).collect()
    }

    /// Reconciles due objects up to a limit of passes. Returns whether nothing is due any more.
    pub(super) fn work(&mut self, limit: usize) -> bool {
        for _ in 0..limit {
            let now = self.now();
            let next = self.due.iter().find(|(_, time)| **time <= now);
            let Some(key) = next.map(|(key, _)| key.clone()) else {
                return true;
            };
            self.reconcile(&key);
        }
        false
    }

    /// Advances the time to the next deadline; in a calm namespace to that of a Stack or an Update.
    pub(super) fn wait(&mut self, is_calm: bool) {
        let first = self.due.values().min().copied();
        let next = if is_calm { self.next_due() } else { first };
        // No two passes happen at the same time.
        let soon = self.now() + SignedDuration::from_secs(1);
        self.advance_to(next.map_or(soon, |next| next.max(soon)));
    }

    /// Reconciles everything once, due or not.
    pub(super) fn reconcile_all(&mut self) {
        for key in self.objects() {
            self.reconcile(&key);
        }
    }

    fn reconcile(&mut self, key: &Key) {
        match self.pass(key) {
            Ok(Some(Requeue::After(delay))) => {
                let delay = SignedDuration::try_from(delay).unwrap();
                self.due.insert(key.clone(), self.now() + delay);
            }
            Ok(Some(Requeue::Settled) | None) => drop(self.due.remove(key)),
            Err(Crashed) => {
                self.restart();
                return;
            }
        }
        self.deliver_requests();
        self.wake_changed();
    }

    /// Restarts the manager after a crash.
    fn restart(&mut self) {
        for cluster in &mut self.clusters {
            cluster.writes_left = None;
            cluster.stale_stack = None;
            cluster.faults.old_updates.clear();
        }
        self.deliver_requests();
        self.relist();
    }

    fn pass(&mut self, key: &Key) -> Result<Option<Requeue>, Crashed> {
        Ok(match key {
            Key::Stack(index) => {
                self.clusters[*index].others = self.stacks();
                invariants::stack(&mut self.clusters[*index])?.map(|pass| pass.plan.requeue)
            }
            Key::Workspace(index) => {
                invariants::workspace(&mut self.clusters[*index])?.map(|pass| pass.plan.requeue)
            }
            Key::Update(index, name) => {
                invariants::update(&mut self.clusters[*index], name)?.map(|pass| pass.plan.requeue)
            }
        })
    }

    /// All Stacks, and an error for each missing prerequisite.
    fn stacks(&self) -> BTreeMap<String, Result<Stack, String>> {
        let stacks = || {
            self.clusters
                .iter()
                .filter_map(|cluster| cluster.stack.as_ref())
        };
        let prerequisites = stacks().flat_map(|stack| &stack.spec.prerequisites);
        let missing = prerequisites.map(|prerequisite| {
            let problem = format!("stacks.pulumi.com \"{}\" not found", prerequisite.name);
            (prerequisite.name.clone(), Err(problem))
        });
        let found = stacks().map(|stack| (stack.metadata.name.clone().unwrap(), Ok(stack.clone())));
        missing.chain(found).collect()
    }

    /// Delivers the requests of one Stack to another.
    fn deliver_requests(&mut self) {
        let requests = self
            .clusters
            .iter_mut()
            .flat_map(|cluster| std::mem::take(&mut cluster.requests));
        let requests: Vec<(String, String)> = requests.collect();
        for (name, value) in requests {
            let stacks = self
                .clusters
                .iter_mut()
                .filter_map(|cluster| cluster.stack.as_mut());
            for stack in stacks.filter(|stack| stack.metadata.name.as_ref() == Some(&name)) {
                request(stack, &value);
            }
        }
    }

    /// Wakes the objects that depend on changed ones.
    pub(super) fn wake_changed(&mut self) {
        for index in 0..self.clusters.len() {
            for key in self.objects_to_wake(index) {
                self.due.insert(key, self.now());
            }
            self.watched[index].update_from(&self.clusters[index]);
        }
    }

    /// Wakes the Stack and its Workspace after a change of a program or a pod.
    pub(super) fn wake(&mut self, index: usize) {
        if self.is_watching {
            let now = self.now();
            self.due.insert(Key::Stack(index), now);
            self.due.insert(Key::Workspace(index), now);
        }
        self.wake_changed();
    }

    fn objects_to_wake(&self, index: usize) -> Vec<Key> {
        let (cluster, watched) = (&self.clusters[index], &self.watched[index]);
        let mut keys = Vec::new();
        let before = watched.stack.as_ref().map(|stack| &stack.metadata);
        if cluster.stack.as_ref().map(|stack| &stack.metadata) != before {
            keys.push(Key::Stack(index));
        }
        if cluster.stack != watched.stack && self.is_watching {
            keys.extend(self.dependents(index));
        }
        if cluster.workspace != watched.workspace {
            let is_new =
                generation(cluster.workspace.as_ref()) != generation(watched.workspace.as_ref());
            keys.extend(is_new.then_some(Key::Workspace(index)));
            if self.is_watching {
                keys.push(Key::Stack(index));
                let waiting = cluster.updates.keys();
                keys.extend(waiting.map(|name| Key::Update(index, name.clone())));
            }
        }
        for (name, update) in &cluster.updates {
            let before = watched.updates.get(name).map(|update| &update.metadata);
            if Some(&update.metadata) != before {
                keys.push(Key::Update(index, name.clone()));
            }
        }
        if cluster.updates != watched.updates && self.is_watching {
            keys.push(Key::Stack(index));
        }
        keys
    }

    /// The Stacks that have this one as prerequisite.
    fn dependents(&self, index: usize) -> Vec<Key> {
        let stack = self.clusters[index]
            .stack
            .as_ref()
            .or(self.watched[index].stack.as_ref());
        let name = stack.and_then(|stack| stack.metadata.name.clone());
        let waits = |cluster: &SimulatedCluster| {
            let prerequisites = cluster
                .stack
                .iter()
                .flat_map(|stack| &stack.spec.prerequisites);
            prerequisites
                .into_iter()
                .any(|prerequisite| Some(&prerequisite.name) == name.as_ref())
        };
        let all = self.clusters.iter().enumerate();
        all.filter(|(_, cluster)| waits(cluster))
            .map(|(index, _)| Key::Stack(index))
            .collect()
    }
}

fn generation(workspace: Option<&Workspace>) -> (Option<String>, Option<i64>) {
    let metadata = workspace.map(|workspace| &workspace.metadata);
    (
        metadata.and_then(|metadata| metadata.uid.clone()),
        metadata.and_then(|metadata| metadata.generation),
    )
}
