//! The state that a node's handle shares with its pods: injected faults and running containers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use parking_lot::{Mutex, MutexGuard};
use rustix::process::Signal;
use tokio::sync::watch;

use super::NodeSettings;
use super::process::Process;

#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) stopped: bool,
    pub(super) unschedulable: bool,
    pub(super) broken_images: BTreeSet<String>,
}

/// The current or last pod of a name.
#[derive(Debug, Default)]
struct PodRecord {
    started: usize,
    logs: PathBuf,
    running: BTreeMap<String, Process>,
    out_of_memory: bool,
}

/// See [`super::FakeNode`].
pub(super) struct NodeState {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) group: i32,
    pub(super) settings: NodeSettings,
    pub(super) faults: watch::Sender<Faults>,
    pods: Mutex<BTreeMap<String, PodRecord>>,
}

impl NodeState {
    pub(super) fn new(name: String, folder: PathBuf, group: i32, settings: NodeSettings) -> Self {
        Self {
            name,
            folder,
            group,
            settings,
            faults: watch::Sender::new(Faults::default()),
            pods: Mutex::default(),
        }
    }

    /// Waits while faults are not as they have to be.
    pub(super) async fn until(&self, condition: impl FnMut(&Faults) -> bool) {
        // The sender is a field of this: it can't be gone
        let _ = self.faults.subscribe().wait_for(condition).await;
    }

    /// Waits while the node does nothing.
    pub(super) async fn wait_while_paused(&self) {
        self.until(|faults| !faults.stopped).await;
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, PodRecord>> {
        self.pods.lock()
    }

    /// Counts a new pod. Returns the number of earlier pods of its name.
    pub(super) fn count_start(&self, pod: &str) -> usize {
        let mut pods = self.pods();
        let known = pods.entry(pod.to_owned()).or_default();
        known.started += 1;
        known.started - 1
    }

    /// Where the logs of the present pod of this name are.
    pub(super) fn set_logs(&self, pod: &str, logs: PathBuf) {
        self.pods().entry(pod.to_owned()).or_default().logs = logs;
    }

    pub(super) fn logs(&self, pod: &str) -> Option<PathBuf> {
        self.pods().get(pod).map(|known| known.logs.clone())
    }

    pub(super) fn start_counts(&self) -> BTreeMap<String, usize> {
        let pods = self.pods();
        let counts = pods.iter().map(|(name, pod)| (name.clone(), pod.started));
        counts.collect()
    }

    /// A container of a pod runs.
    pub(super) fn mark_running(&self, pod: &str, container: &str, process: Process) {
        let mut pods = self.pods();
        let known = pods.entry(pod.to_owned()).or_default();
        known.running.insert(container.to_owned(), process);
    }

    /// Marks a container as ended. Returns true if it was out of memory.
    pub(super) fn mark_ended(&self, pod: &str, container: &str) -> bool {
        let mut pods = self.pods();
        let Some(known) = pods.get_mut(pod) else {
            return false;
        };
        known.running.remove(container);
        std::mem::take(&mut known.out_of_memory)
    }

    /// The number of the first process of a container that runs.
    pub(super) fn process(&self, pod: &str, container: &str) -> Option<u32> {
        let pods = self.pods();
        let process = pods.get(pod)?.running.get(container)?;
        Some(process.id())
    }

    /// Kills the first process of a container. Returns false if there is none.
    pub(super) fn kill(&self, pod: &str, container: &str, out_of_memory: bool) -> bool {
        let mut pods = self.pods();
        let Some(known) = pods.get_mut(pod) else {
            return false;
        };
        let Some(process) = known.running.get(container) else {
            return false;
        };
        known.out_of_memory = out_of_memory;
        process.signal(Signal::KILL);
        true
    }
}
