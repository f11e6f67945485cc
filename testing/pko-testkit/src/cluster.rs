//! A real cluster with one node, on this machine, without Docker and without downloads of images.
//!
//! etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, containerd and
//! a name server of ours run in namespaces of their own (network, mounts, processes): nothing of the
//! host changes but one interface and the route through it, and the kernel takes everything away when
//! the first process of these namespaces ends. `cargo xtask cluster` is this for people.
//!
//! ```no_run
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! use pko_testkit::cluster::{Cluster, Options};
//!
//! if let Some(obstacle) = Cluster::obstacle() {
//!     println!("skipped: {obstacle}");
//!     return Ok(());
//! }
//! let cluster = Cluster::up(Options::for_test("demo")?).await?;
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
pub mod dns;
mod end;
mod guard;
mod images;
mod machine;
mod namespaces;
mod network;
mod parts;
mod place;
mod processes;
mod start;

/// What [`Helper`] is told to do; `arguments` are those of `cluster-part`.
pub async fn help(arguments: &[String]) -> Result<(), String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["dns", kubeconfig, address] => {
            let address = address.parse().map_err(|error| format!("{error}"))?;
            let served = dns::serve(Path::new(kubeconfig), address).await;
            served.map_err(|error| format!("{error:?}"))
        }
        ["down", name] => Cluster::take_down(name).map_err(|error| format!("{error:?}")),
        _ => Err("expected `dns KUBECONFIG ADDRESS` or `down NAME`".to_owned()),
    }
}

pub use machine::missing_packages;
pub use parts::{PAUSE_IMAGE, Part};
pub use processes::NodeProcess;

use crate::components::{Components, ComponentsError};
use crate::control_plane::{AccessError, CertificateError, LayoutError};
use guard::Guard;
use namespaces::Namespaces;
use network::Network;
use parts::Parts;
use place::Place;

/// The program of ours that a cluster runs.
const HELPER: &str = "cluster-part";

/// Where a cluster finds the program of ours that serves its names and, for a test, takes it down.
#[derive(Clone, Debug)]
pub struct Helper {
    /// The program.
    pub program: PathBuf,
    /// What comes before its arguments.
    pub arguments: Vec<String>,
}

impl Helper {
    /// `cluster-part` in `$PKO_BIN_DIR`, or where cargo puts programs.
    pub fn find() -> Result<Self, ClusterError> {
        let this = std::env::current_exe().unwrap_or_default();
        let beside = this.ancestors().skip(1).take(2).map(Path::to_owned);
        let folders = match std::env::var_os("PKO_BIN_DIR") {
            Some(folder) => vec![PathBuf::from(folder)],
            None => beside.collect(),
        };
        let mut programs = folders.iter().map(|folder| folder.join(HELPER));
        let program = programs.find(|path| path.is_file());
        Ok(Self {
            program: program.ok_or(ClusterError::NoHelper)?,
            arguments: Vec::new(),
        })
    }
}

/// What a cluster should be like.
pub struct Options {
    /// By what name it is found; clusters by other names don't disturb it.
    pub name: String,
    /// Whether it stays when its [`Cluster`] is dropped and when this process ends.
    pub stays: bool,
    /// The program of ours that it runs.
    pub helper: Helper,
    /// Told what takes time.
    pub say: Box<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// For a test: it ends with the test, or with the test's process, however that ends.
    pub fn for_test(name: &str) -> Result<Self, ClusterError> {
        Ok(Self {
            name: name.to_owned(),
            stays: false,
            helper: Helper::find()?,
            say: Box::new(|_| ()),
        })
    }
}

impl Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("name", &self.name)
            .field("stays", &self.stays)
            .field("helper", &self.helper)
            .finish_non_exhaustive()
    }
}

/// A cluster that is up. Dropping it takes it down, unless it stays by [`Options::stays`].
pub struct Cluster {
    guard: Option<Guard>,
    helper: Helper,
    found: bool,
    place: Place,
    namespaces: Namespaces,
    network: Network,
    components: Components,
}

impl Cluster {
    /// Why no cluster can run on this machine, if none can, in a few words.
    #[must_use]
    pub fn obstacle() -> Option<String> {
        machine::obstacle()
    }

    /// The cluster by a name, if it is up; whether it is well is not asked. It stays when this is dropped.
    pub fn find(name: &str, helper: Helper) -> Result<Option<Self>, ClusterError> {
        let place = Place::of(name)?;
        let components = Components::from_environment()?;
        Ok(Self::at(place, helper, components))
    }

    fn at(place: Place, helper: Helper, components: Components) -> Option<Self> {
        Some(Self {
            guard: None,
            helper,
            found: true,
            namespaces: Namespaces::find(&place)?,
            network: Network::of(&place)?,
            place,
            components,
        })
    }

    /// The one that is up at a place and well.
    async fn running(place: &Place, options: &Options, components: &Components) -> Option<Self> {
        let mut cluster = Self::at(place.clone(), options.helper.clone(), components.clone())?;
        let parts_run = Part::ALL.iter().all(|part| {
            let program = cluster.parts().program(*part).unwrap_or_default();
            // The name server may have been started from another build of ours
            *part == Part::Names || !cluster.namespaces.running(&program).is_empty()
        });
        if !parts_run {
            return None;
        }
        let nodes = Api::all(cluster.client().await.ok()?);
        start::is_ready(&nodes, &cluster.node_name()).await.ok()?;
        if !options.stays {
            cluster.guard = Guard::new(place, &options.helper).ok();
        }
        Some(cluster)
    }

    /// Takes a cluster away, by its name, whole or half-made; none is no error.
    pub fn take_down(name: &str) -> Result<(), ClusterError> {
        let place = Place::of(name)?;
        let lock = place.lock()?;
        end::take_down(&place)?;
        lock.remove();
        Ok(())
    }

    /// Takes it away now, and says if that fails.
    pub fn down(self) -> Result<(), ClusterError> {
        let place = self.place.clone();
        drop(self);
        Self::take_down(place.name())
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            place: &self.place,
            network: self.network,
            components: &self.components,
            helper: &self.helper,
        }
    }

    /// Whether it was up already.
    #[must_use]
    pub fn was_up(&self) -> bool {
        self.found
    }

    /// Everything of it: configuration, certificates, logs, data; gone when the cluster is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.place.folder()
    }

    /// The log of a part.
    #[must_use]
    pub fn log(&self, part: Part) -> PathBuf {
        self.place.log(part.name())
    }

    /// The API server's log of requests, for [`crate::audit`].
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.place.path("audit.log")
    }

    /// Where the API server listens, for the host and for pods.
    #[must_use]
    pub fn url(&self) -> String {
        self.parts().url()
    }

    /// The name of the only node.
    #[must_use]
    pub fn node_name(&self) -> String {
        self.parts().node_name()
    }

    /// The address of the node.
    #[must_use]
    pub fn node_address(&self) -> Ipv4Addr {
        self.network.node()
    }

    /// The address under which pods reach what listens on the host.
    #[must_use]
    pub fn host_address(&self) -> Ipv4Addr {
        self.network.host()
    }
}

/// Why there is no cluster, or why it did not do something.
#[derive(thiserror::Error)]
pub enum ClusterError {
    /// The machine can't.
    #[error("no cluster can run here: {0}")]
    Impossible(String),
    /// A name that can't be part of a host's name.
    #[error(
        "`{0}` is no name for a cluster: at most 20 of a-z, 0-9 and -, beginning and ending with a letter or digit"
    )]
    Name(String),
    /// The node has its own view of some folders.
    #[error("a cluster can't be kept in {}: set PKO_CACHE to a folder that is not in /run, /var/lib or /var/log", .0.display())]
    HiddenCache(PathBuf),
    /// Our own program is missing.
    #[error(
        "`{HELPER}` is not there: build it with `cargo build --workspace --bins`, or set PKO_BIN_DIR"
    )]
    NoHelper,
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
    /// The API server said no, or nothing.
    #[error("failed to ask the cluster's API server")]
    Ask(#[from] kube::Error),
    /// A file or folder can't be used.
    #[error("failed to {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A program did not start.
    #[error("failed to run {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A program failed.
    #[error("`{command}` failed ({status}); the end of what it said:\n{output}")]
    Command {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its output.
        output: String,
    },
    /// An image without a name can't be used by anybody.
    #[error("the image in {} brings no name: give it one, such as docker.io/local/NAME:1", .0.display())]
    Nameless(PathBuf),
    /// A part started and ended.
    #[error("{name} ended; the end of its log:\n{log}")]
    Ended {
        /// The part.
        name: &'static str,
        /// The last lines of its log.
        log: String,
    },
    /// A part runs, but is not ready.
    #[error("{what} did not become ready: {missing}; the end of the log:\n{log}")]
    NotReady {
        /// What was waited for.
        what: String,
        /// What was missing at last.
        missing: String,
        /// The last lines of its log.
        log: String,
    },
    /// A process does not end.
    #[error("{0} does not end, though it was killed")]
    Stays(String),
    /// The program that cleans up can't be started.
    #[error("failed to start `sh`, which cleans up after a test's cluster")]
    Guard(#[source] io::Error),
    /// The thread that builds components panicked.
    #[error("failed to find the components")]
    Find(#[from] JoinError),
}

crate::error_text::debug_is_text!(ClusterError);
