//! A real cluster with one node, on this machine, without Docker and without image downloads.
//!
//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, containerd
//! and CoreDNS run in their own network, mount and PID namespaces. On the host only one interface
//! and a route through it appear, and the kernel removes everything when the first process of these
//! namespaces ends. `cargo xtask cluster` brings one up for people.
//!
//! ```no_run
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! use pko_testkit::cluster::{Cluster, ClusterOptions};
//!
//! if let Some(obstacle) = Cluster::obstacle() {
//!     println!("skipped: {obstacle}");
//!     return Ok(());
//! }
//! let cluster = Cluster::up(ClusterOptions::for_test("demo")).await?;
//! cluster.load_image("image/oci".as_ref(), "docker.io/local/agent:1")?;
//! println!("{}", cluster.run_kubectl(&["get", "pods", "-A"])?);
//! # Ok(())
//! # }
//! ```

use std::fmt::{self, Debug};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use kube::Api;
use kube::config::KubeconfigError;
use tokio::task::JoinError;

mod access;
mod cgroups;
mod cluster_dir;
mod component_config;
mod images;
mod namespaces;
mod network;
mod prerequisites;
mod processes;
mod start;
mod teardown;

pub use component_config::{ClusterComponent, PAUSE_IMAGE};
pub use prerequisites::{install_packages, missing_packages};
pub use processes::NodeProcess;

use crate::components::{Components, ComponentsError};
use crate::control_plane::{AccessError, CertificateError, LayoutError};
use crate::lifeline::Lifeline;
use cluster_dir::ClusterDir;
use component_config::ComponentConfig;
use namespaces::NodeNamespaces;
use network::NodeNetwork;

/// Takes down the cluster of a test that was killed.
const DOWN_PROGRAM: &str = "cluster-down";

pub struct ClusterOptions {
    /// Clusters of different names are independent.
    pub name: String,
    /// Keeps the cluster when its [`Cluster`] is dropped and when this process ends.
    pub keep: bool,
    pub progress: Box<dyn Fn(&str) + Send + Sync>,
}

impl ClusterOptions {
    /// Options for a test: the cluster ends with the test, also if the process is killed.
    #[must_use]
    pub fn for_test(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            keep: false,
            progress: Box::new(|_| ()),
        }
    }
}

impl Debug for ClusterOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClusterOptions")
            .field("name", &self.name)
            .field("stays", &self.keep)
            .finish_non_exhaustive()
    }
}

/// A cluster that is up. Dropping it takes it down, unless it stays by [`ClusterOptions::keep`].
pub struct Cluster {
    /// Takes the cluster down when this process ends.
    lifeline: Option<Lifeline>,
    found: bool,
    dir: ClusterDir,
    namespaces: NodeNamespaces,
    network: NodeNetwork,
    components: Components,
}

impl Cluster {
    /// The reason why this machine can't run a cluster, or `None`.
    #[must_use]
    pub fn obstacle() -> Option<String> {
        prerequisites::obstacle()
    }

    /// Finds a running cluster, healthy or not. Dropping it does not take it down.
    pub fn find(name: &str) -> Result<Option<Self>, ClusterError> {
        let dir = ClusterDir::of(name)?;
        let components = Components::from_environment()?;
        Ok(Self::at(dir, components))
    }

    fn at(dir: ClusterDir, components: Components) -> Option<Self> {
        Some(Self {
            lifeline: None,
            found: true,
            namespaces: NodeNamespaces::find(&dir)?,
            network: NodeNetwork::of(&dir)?,
            dir,
            components,
        })
    }

    /// The cluster in a folder, if it is up and healthy.
    async fn find_healthy(
        dir: &ClusterDir,
        options: &ClusterOptions,
        components: &Components,
    ) -> Option<Self> {
        let mut cluster = Self::at(dir.clone(), components.clone())?;
        let parts_run = ClusterComponent::ALL.iter().all(|component| {
            let program = cluster
                .component_config()
                .program(*component)
                .unwrap_or_default();
            !cluster.namespaces.running(&program).is_empty()
        });
        if !parts_run {
            return None;
        }
        let nodes = Api::all(cluster.client().await.ok()?);
        start::is_ready(&nodes, &cluster.node_name()).await.ok()?;
        if !options.keep {
            cluster.lifeline = teardown::lifeline(dir).ok();
        }
        Some(cluster)
    }

    /// Takes a cluster down, complete or partly created. Idempotent.
    pub fn take_down(name: &str) -> Result<(), ClusterError> {
        let dir = ClusterDir::of(name)?;
        let lock = dir.lock()?;
        teardown::take_down(&dir)?;
        lock.remove();
        Ok(())
    }

    /// Takes it down now, and returns errors.
    pub fn down(self) -> Result<(), ClusterError> {
        let dir = self.dir.clone();
        drop(self);
        Self::take_down(dir.name())
    }

    fn component_config(&self) -> ComponentConfig<'_> {
        ComponentConfig {
            dir: &self.dir,
            network: self.network,
            components: &self.components,
        }
    }

    /// True if [`Cluster::up`] found it running.
    #[must_use]
    pub fn was_up(&self) -> bool {
        self.found
    }

    /// Everything of it: configuration, certificates, logs, data; gone when the cluster is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.dir.folder()
    }

    #[must_use]
    pub fn log(&self, component: ClusterComponent) -> PathBuf {
        self.dir.log(component.name())
    }

    /// The API server's log of requests, for [`crate::audit`].
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.dir.path("audit.log")
    }

    /// Where the API server listens, for the host and for pods.
    #[must_use]
    pub fn url(&self) -> String {
        self.component_config().url()
    }

    /// The name of the only node.
    #[must_use]
    pub fn node_name(&self) -> String {
        self.component_config().node_name()
    }

    /// The address of the node.
    #[must_use]
    pub fn node_address(&self) -> Ipv4Addr {
        self.network.node()
    }

    /// The host's address for pods.
    #[must_use]
    pub fn host_address(&self) -> Ipv4Addr {
        self.network.host()
    }
}

/// Why there is no cluster, or why it did not do something.
#[derive(thiserror::Error)]
pub enum ClusterError {
    #[error("no cluster can run here: {0}")]
    Impossible(String),
    #[error(
        "`{0}` is no name for a cluster: at most 20 of a-z, 0-9 and -, beginning and ending with a letter or digit"
    )]
    Name(String),
    /// The node has its own view of some folders.
    #[error("a cluster can't be kept in {}: set PKO_CACHE to a folder that is not in /run, /var/lib or /var/log", .0.display())]
    HiddenCache(PathBuf),
    /// Our own program is missing.
    #[error(
        "`{DOWN_PROGRAM}` is not there: build it with `cargo build --workspace --bins`, or set PKO_BIN_DIR"
    )]
    NoDownProgram,
    /// A program of Kubernetes is missing.
    #[error(transparent)]
    Components(#[from] ComponentsError),
    /// A certificate can't be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A file can't be written.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A kubeconfig can't be written.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A kubeconfig can't be read.
    #[error("failed to read the cluster's kubeconfig")]
    Kubeconfig(#[from] KubeconfigError),
    #[error("failed to ask the cluster's API server")]
    Ask(#[from] kube::Error),
    /// A file or folder can't be used.
    #[error("failed to {action} {}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A program did not start.
    #[error("failed to run {}", program.display())]
    Run { program: PathBuf, source: io::Error },
    #[error("`{command}` failed ({status}); the end of its output:\n{output}")]
    Command {
        command: String,
        status: ExitStatus,
        /// The last lines of its output.
        output: String,
    },
    #[error("the image in {} brings no name: give it one, such as docker.io/local/NAME:1", .0.display())]
    Nameless(PathBuf),
    #[error("{name} ended; the end of its log:\n{log}")]
    Ended {
        name: &'static str,
        /// The last lines of its log.
        log: String,
    },
    #[error("{what} did not become ready: {missing}; the end of the log:\n{log}")]
    NotReady {
        what: String,
        missing: String,
        /// The last lines of its log.
        log: String,
    },
    /// A process does not end.
    #[error("{0} does not end, though it was killed")]
    Stays(String),
    /// The program that cleans up can't be started.
    #[error("failed to start `sh`, which cleans up after a test's cluster")]
    Lifeline(#[source] io::Error),
    /// The thread that builds components panicked.
    #[error("failed to find the components")]
    Find(#[from] JoinError),
}

crate::error_text::debug_is_text!(ClusterError);
