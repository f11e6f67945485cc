//! A pretend node: what a scheduler and a kubelet would do for the pods of workspaces, with real
//! processes of the real agent.
//!
//! ```text
//!   watch ──▶ one life per pod: bind ─▶ mount ─▶ init containers ─▶ containers ─▶ deletion
//!                                 └─────────── each step is told in the pod's status
//! ```
//!
//! Containers are processes of this machine. They share its file system, so paths below their mounts
//! are rewritten in commands, arguments and variables; they share its network, so each pod has an
//! address of its own in 127.0.0.0/8 and the agent is told to listen there. What is missing: images
//! (a container runs a program of this machine), limits, probes, native side cars, and volumes other
//! than emptyDir, Secret and ConfigMap, which are empty.

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
mod api;
mod environment;
mod expand;
mod files;
mod launch;
mod paths;
mod pod;
mod process;
mod references;
mod shared;
mod status;
mod watch;
mod words;

pub use address::free as free_address;

use crate::control_plane::{AccessError, ControlPlane, MASTERS};
use crate::keeper::Keeper;
use crate::leftovers::{FolderKeeper, kill_processes_of};
use shared::Shared;

/// The name under which a node appears in the audit log.
pub const USER: &str = "pretend-node";
/// The folder of all pods.
const PODS: &str = "pods";
/// The container in which the agent serves.
const AGENT_CONTAINER: &str = "pulumi";

static NODES: AtomicUsize = AtomicUsize::new(0);

/// What a node needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The agent, which stands for `/agent` in any image.
    pub agent: PathBuf,
    /// Variables of every container, besides `PATH`, `HOME`, `TMPDIR` and `HOSTNAME`; the pod's own
    /// win.
    pub environment: Vec<(String, String)>,
    /// The namespace whose pods are this node's; all, if there is none. Tests that share a plane
    /// have a node each.
    pub namespace: Option<String>,
}

/// A running node. Dropping it kills its processes and removes its folder.
pub struct Node {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    keeper: Keeper,
    folder: TempDir,
    /// For what has left the group of the first keeper
    _folder_keeper: FolderKeeper,
}

impl Node {
    /// Starts a node, which takes the pods with the label `auto.pulumi.com/component=workspace` that
    /// have no node yet.
    ///
    /// It has a thread of its own, so it works on while a test blocks.
    pub fn start(plane: &ControlPlane, settings: Settings) -> Result<Self, NodeError> {
        let config = plane.config_as(USER, &[MASTERS])?;
        let folder = TempDir::with_prefix("pko-node-")?;
        let keeper = Keeper::new(folder.path())?;
        let folder_keeper = FolderKeeper::new(&folder.path().join(PODS))?;
        let number = NODES.fetch_add(1, Ordering::Relaxed);
        let name = format!("{USER}-{}-{number}", std::process::id());
        let path = folder.path().to_owned();
        let shared = Arc::new(Shared::new(name, path, keeper.group()?, settings));
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
                    () = watch::follow(node, client) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Self {
            shared,
            stop: Some(stop),
            thread: Some(thread),
            keeper,
            folder,
            _folder_keeper: folder_keeper,
        })
    }

    /// Its name, as pods have it in `spec.nodeName`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// From now on an image does not exist.
    pub fn break_image(&self, image: &str) {
        let image = image.to_owned();
        self.shared.faults.send_modify(|faults| {
            faults.broken_images.insert(image);
        });
    }

    /// From now on it does; who waits for it goes on.
    pub fn mend_image(&self, image: &str) {
        self.shared.faults.send_modify(|faults| {
            faults.broken_images.remove(image);
        });
    }

    /// Whether new pods find no place.
    pub fn unschedulable(&self, unschedulable: bool) {
        let faults = &self.shared.faults;
        faults.send_modify(|faults| faults.unschedulable = unschedulable);
    }

    /// The node does nothing, like one whose kubelet is down: what runs goes on, and nobody looks.
    pub fn stop(&self) {
        self.shared
            .faults
            .send_modify(|faults| faults.stopped = true);
    }

    /// The node works again.
    pub fn go_on(&self) {
        self.shared
            .faults
            .send_modify(|faults| faults.stopped = false);
    }

    /// Kills a pod's agent with SIGKILL; whether it was running. Its container is started again.
    #[must_use]
    pub fn kill(&self, namespace: &str, pod: &str) -> bool {
        let pod = format!("{namespace}/{pod}");
        self.shared.kill(&pod, AGENT_CONTAINER, false)
    }

    /// Kills a pod's agent as the kernel does when a container has used up its memory.
    #[must_use]
    pub fn out_of_memory(&self, namespace: &str, pod: &str) -> bool {
        let pod = format!("{namespace}/{pod}");
        self.shared.kill(&pod, AGENT_CONTAINER, true)
    }

    /// The process of a pod's agent, without the ones that it starts and that come and go.
    #[must_use]
    pub fn agent(&self, namespace: &str, pod: &str) -> Option<u32> {
        let pod = format!("{namespace}/{pod}");
        self.shared.process(&pod, AGENT_CONTAINER)
    }

    /// All processes of all its pods.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        process::of_folder(&self.pods())
    }

    /// What a container has said in all its runs; of the last pod of this name, also when it is
    /// gone.
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

    /// How many pods of each `namespace/name` there have been.
    #[must_use]
    pub fn pods_started(&self) -> BTreeMap<String, usize> {
        self.shared.started()
    }

    fn pods(&self) -> PathBuf {
        self.folder.path().join(PODS)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // By its variables, or, if it cleared them, by a path of a pod in its arguments
        kill_processes_of(&self.pods());
        self.keeper.end();
    }
}

/// Why a node does not start.
#[derive(thiserror::Error)]
pub enum NodeError {
    /// There is no way into the control plane.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// No folder, no thread, or no keeper.
    #[error("failed to prepare a node")]
    Prepare(#[from] io::Error),
}

crate::error_text::debug_is_text!(NodeError);
