//! Stacks side by side, each in its own small cluster. An object is looked at when something wakes
//! it or when its time has come, as controllers do.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use pko_api::{Stack, Update, Workspace};
use serde_json::Value;

use super::{
    invariants,
    simulated_cluster::{Crashed, SimulatedCluster, request},
};
use crate::Requeue;

/// What is looked at: an object of one of the clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Stack(usize),
    Workspace(usize),
    Update(usize, String),
}

/// The objects of a cluster as they were when somebody was last told of them.
#[derive(Clone, Debug, Default)]
struct WatchedObjects {
    stack: Option<Stack>,
    workspace: Option<Workspace>,
    updates: BTreeMap<String, Update>,
}

impl WatchedObjects {
    fn hear(&mut self, cluster: &SimulatedCluster) {
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
    /// When each object is looked at next.
    due: BTreeMap<Key, Timestamp>,
    watched: Vec<WatchedObjects>,
    /// Whoever waits for an object is_watching of its changes. Without that, deadlines alone keep
    /// things going.
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
        namespace.tell();
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

    /// What was written last, for whoever wants to know why a walk failed.
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

    /// When the Stack wants to be looked at again.
    pub(super) fn stack_is_due(&self, index: usize) -> Option<Timestamp> {
        self.due.get(&Key::Stack(index)).copied()
    }

    /// When the first Stack or Update wants to be looked at again.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let dues = self
            .due
            .iter()
            .filter(|(key, _)| !matches!(key, Key::Workspace(_)));
        dues.map(|(_, time)| *time).min()
    }

    /// A manager has started, or its watches have: everything is listed.
    pub(super) fn relist(&mut self) {
        let now = self.now();
        for key in self.objects() {
            self.due.insert(key, now);
        }
        self.tell();
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

    /// Looks at what is due, at most so many times; says whether there was less.
    pub(super) fn work(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let now = self.now();
            let next = self.due.iter().find(|(_, time)| **time <= now);
            let Some(key) = next.map(|(key, _)| key.clone()) else {
                return true;
            };
            self.look(&key);
        }
        false
    }

    /// Lets time pass until somebody wants to look; in a calm world that is a Stack or an Update.
    pub(super) fn wait(&mut self, is_calm: bool) {
        let first = self.due.values().min().copied();
        let next = if is_calm { self.next_due() } else { first };
        // No two looks happen at the same time.
        let soon = self.now() + SignedDuration::from_secs(1);
        self.advance_to(next.map_or(soon, |next| next.max(soon)));
    }

    /// Looks at everything once, due or not.
    pub(super) fn reconcile_all(&mut self) {
        for key in self.objects() {
            self.look(&key);
        }
    }

    fn look(&mut self, key: &Key) {
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
        self.carry_requests();
        self.tell();
    }

    /// Whoever died is started anew.
    fn restart(&mut self) {
        for cluster in &mut self.clusters {
            cluster.writes_left = None;
            cluster.stale_stack = None;
            cluster.faults.old_updates.clear();
        }
        self.carry_requests();
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

    /// All Stacks, and the names for which there is none.
    fn stacks(&self) -> BTreeMap<String, Result<Stack, String>> {
        let stacks = || {
            self.clusters
                .iter()
                .filter_map(|cluster| cluster.stack.as_ref())
        };
        let wanted = stacks().flat_map(|stack| &stack.spec.prerequisites);
        let missing = wanted.map(|wanted| {
            let problem = format!("stacks.pulumi.com \"{}\" not found", wanted.name);
            (wanted.name.clone(), Err(problem))
        });
        let found = stacks().map(|stack| (stack.metadata.name.clone().unwrap(), Ok(stack.clone())));
        missing.chain(found).collect()
    }

    /// What one Stack asks of another arrives there.
    fn carry_requests(&mut self) {
        let asked = self
            .clusters
            .iter_mut()
            .flat_map(|cluster| std::mem::take(&mut cluster.requests));
        let asked: Vec<(String, String)> = asked.collect();
        for (name, value) in asked {
            let stacks = self
                .clusters
                .iter_mut()
                .filter_map(|cluster| cluster.stack.as_mut());
            for stack in stacks.filter(|stack| stack.metadata.name.as_ref() == Some(&name)) {
                request(stack, &value);
            }
        }
    }

    /// Wakes whoever has to do with what has changed.
    pub(super) fn tell(&mut self) {
        for index in 0..self.clusters.len() {
            for key in self.concerned(index) {
                self.due.insert(key, self.now());
            }
            self.watched[index].hear(&self.clusters[index]);
        }
    }

    /// What lies behind the objects has changed: a program, a pod.
    pub(super) fn wake(&mut self, index: usize) {
        if self.is_watching {
            let now = self.now();
            self.due.insert(Key::Stack(index), now);
            self.due.insert(Key::Workspace(index), now);
        }
        self.tell();
    }

    fn concerned(&self, index: usize) -> Vec<Key> {
        let (cluster, watched) = (&self.clusters[index], &self.watched[index]);
        let mut keys = Vec::new();
        let before = watched.stack.as_ref().map(|stack| &stack.metadata);
        if cluster.stack.as_ref().map(|stack| &stack.metadata) != before {
            keys.push(Key::Stack(index));
        }
        if cluster.stack != watched.stack && self.is_watching {
            keys.extend(self.waiting_for(index));
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

    /// The Stacks that this one comes before.
    fn waiting_for(&self, index: usize) -> Vec<Key> {
        let stack = self.clusters[index]
            .stack
            .as_ref()
            .or(self.watched[index].stack.as_ref());
        let name = stack.and_then(|stack| stack.metadata.name.clone());
        let waits = |cluster: &SimulatedCluster| {
            let wanted = cluster
                .stack
                .iter()
                .flat_map(|stack| &stack.spec.prerequisites);
            wanted
                .into_iter()
                .any(|wanted| Some(&wanted.name) == name.as_ref())
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
