//! A fake node: it schedules and runs the pods of workspaces as real processes of the real agent.
//!
//! ```text
//!   watch ──▶ one task per pod: bind ─▶ mount ─▶ init containers ─▶ containers ─▶ deletion
//!                                 └─────────── each step is reported in the pod's status
//! ```
//!
//! Containers are processes of this machine. They share its file system, so paths below their
//! mounts are rewritten in commands, arguments and variables. They share its network, so each pod
//! has its own address in 127.0.0.0/8, and the agent gets a `--host` argument. Not supported:
//! images (a container runs a program of this machine), limits, probes, native sidecars, and
//! volumes other than emptyDir, Secret and ConfigMap, which are empty.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use kube::Client;
use tempfile::TempDir;
use tokio::runtime;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

mod address;
mod container_start;
mod environment;
mod expand;
mod files;
mod kubelet_messages;
mod node_state;
mod paths;
mod pod_api;
mod pod_status;
mod pod_task;
mod pod_watch;
mod process;
mod references;

pub use address::free as free_address;

use crate::control_plane::{AccessError, ControlPlane, MASTERS};
use crate::process_group::ProcessGroup;
use crate::processes::{FolderGuard, kill_processes_of};
use node_state::NodeState;

/// The user of fake nodes in the audit log.
pub const USER: &str = "pretend-node";
/// The folder of all pods.
const PODS: &str = "pods";
/// The container in which the agent serves.
const AGENT_CONTAINER: &str = "pulumi";

static NODES: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The program for `/agent` in any image.
    pub agent: PathBuf,
    /// Variables of every container, in addition to `PATH`, `HOME`, `TMPDIR` and `HOSTNAME`. The
    /// pod's own variables take precedence.
    pub environment: Vec<(String, String)>,
    /// The namespace whose pods it runs, or all. Tests that share a plane have a node each.
    pub namespace: Option<String>,
}

/// A running node. Dropping it kills its processes and removes its folder.
pub struct FakeNode {
    shared: Arc<NodeState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    group: ProcessGroup,
    folder: TempDir,
    /// For processes that have left the group
    _pods: FolderGuard,
}

impl FakeNode {
    /// Starts a node, which takes unscheduled pods with the label
    /// `auto.pulumi.com/component=workspace`.
    ///
    /// It has its own thread, so it keeps working while a test blocks.
    pub fn start(plane: &ControlPlane, settings: NodeSettings) -> Result<Self, NodeError> {
        let config = plane.config_as(USER, &[MASTERS])?;
        let folder = TempDir::with_prefix("pko-node-")?;
        let group = ProcessGroup::new(folder.path())?;
        let pods = FolderGuard::new(&folder.path().join(PODS))?;
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        let name = format!("{USER}-{}-{number}", std::process::id());
        let path = folder.path().to_owned();
        let shared = Arc::new(NodeState::new(name, path, group.id()?, settings));
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // A client belongs to the runtime in which it is made
        let client = {
            let _inside = runtime.enter();
            Client::try_from(config).map_err(AccessError::from)?
        };
        let (stop, stopped) = oneshot::channel();
        let node = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let lives = LocalSet::new();
            lives.block_on(&runtime, async {
                tokio::select! {
                    () = pod_watch::run(node, client) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
            group,
            folder,
            _pods: pods,
        })
    }

    /// The `spec.nodeName` of its pods.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Makes an image unavailable.
    pub fn break_image(&self, image: &str) {
        let image = image.to_owned();
        self.shared.faults.send_modify(|faults| {
            faults.broken_images.insert(image);
        });
    }

    /// Makes it available again, also for waiting pods.
    pub fn restore_image(&self, image: &str) {
        self.shared.faults.send_modify(|faults| {
            faults.broken_images.remove(image);
        });
    }

    /// Sets whether new pods are unschedulable.
    pub fn set_unschedulable(&self, unschedulable: bool) {
        let faults = &self.shared.faults;
        faults.send_modify(|faults| faults.unschedulable = unschedulable);
    }

    /// Pauses the node, like one whose kubelet is down: containers keep running unobserved.
    pub fn pause(&self) {
        self.shared
            .faults
            .send_modify(|faults| faults.stopped = true);
    }

    pub fn resume(&self) {
        self.shared
            .faults
            .send_modify(|faults| faults.stopped = false);
    }

    /// Kills a pod's agent with SIGKILL. Returns false if it was not running. The container
    /// restarts.
    #[must_use]
    pub fn kill(&self, namespace: &str, pod: &str) -> bool {
        let pod = format!("{namespace}/{pod}");
        self.shared.kill(&pod, AGENT_CONTAINER, false)
    }

    /// Kills a pod's agent as the kernel's OOM killer does.
    #[must_use]
    pub fn kill_out_of_memory(&self, namespace: &str, pod: &str) -> bool {
        let pod = format!("{namespace}/{pod}");
        self.shared.kill(&pod, AGENT_CONTAINER, true)
    }

    /// The process of a pod's agent, without its child processes.
    #[must_use]
    pub fn agent(&self, namespace: &str, pod: &str) -> Option<u32> {
        let pod = format!("{namespace}/{pod}");
        self.shared.process(&pod, AGENT_CONTAINER)
    }

    /// All processes of all its pods.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        process::processes_in(&self.pods())
    }

    /// The logs of all runs of a container, in the last pod of this name, also after its deletion.
    #[must_use]
    pub fn log(&self, namespace: &str, pod: &str, container: &str) -> String {
        let logs = self.shared.logs(&format!("{namespace}/{pod}"));
        let run = |number| {
            let log = logs.as_ref()?.join(format!("{container}.{number}.log"));
            fs::read(log).ok()
        };
        let runs = (0..).map_while(run);
        runs.map(|text| String::from_utf8_lossy(&text).into_owned())
            .collect()
    }

    /// The number of pods started so far, by `namespace/name`.
    #[must_use]
    pub fn pods_started(&self) -> BTreeMap<String, usize> {
        self.shared.start_counts()
    }

    fn pods(&self) -> PathBuf {
        self.folder.path().join(PODS)
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // Found by environment, or by a pod's path in their arguments if they cleared it
        kill_processes_of(&self.pods());
        self.group.kill();
    }
}

#[derive(thiserror::Error)]
pub enum NodeError {
    #[error(transparent)]
    Access(#[from] AccessError),
    /// No folder, thread or process.
    #[error("failed to prepare a node")]
    Prepare(#[from] io::Error),
}

crate::error_text::debug_is_text!(NodeError);
