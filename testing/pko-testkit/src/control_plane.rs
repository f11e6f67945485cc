//! A real control plane: etcd, kube-apiserver and optionally kube-controller-manager, on free
//! loopback ports, with certificates and a data directory of its own.
//!
//! It ends with its [`ControlPlane`], also when a test panics or this process is killed. Any number
//! run side by side.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tempfile::TempDir;
use tokio::sync;

mod access;
mod certificates;
mod crds;
mod etcd;
mod flags;
mod ports;
mod processes;
mod restart;
mod start;

pub use access::{ADMIN, AccessError};
pub(crate) use access::{MASTERS, write_kubeconfig};
pub use certificates::CertificateError;
pub use crds::InstallError;
pub use etcd::{Etcd, EtcdError};
pub use flags::LayoutError;
pub use processes::Ended;
pub use start::{ControlPlaneBuilder, StartError};

use crate::components::{Component, Components};
pub(crate) use certificates::{Authority, Identity};
pub(crate) use flags::Layout;
use processes::Processes;

/// A running control plane. Dropping it kills its processes and removes its directory.
pub struct ControlPlane {
    // Fields are dropped in this order: the processes end before their directory is removed
    processes: Mutex<Processes>,
    _directory: TempDir,
    layout: Layout,
    authority: Authority,
    components: Components,
    apiserver: PathBuf,
    port: u16,
    etcd_port: u16,
    controller_manager: bool,
}

/// A plane that the tests of this process share. It ends with the process: nothing drops it, and
/// its process group notices that the process is gone.
type SharedPlane = sync::OnceCell<Arc<ControlPlane>>;

static SHARED: SharedPlane = sync::OnceCell::const_new();
static SHARED_WITH_CONTROLLERS: SharedPlane = sync::OnceCell::const_new();

impl ControlPlane {
    #[must_use]
    pub fn builder() -> ControlPlaneBuilder {
        ControlPlaneBuilder::default()
    }

    /// The plane that all tests of this process share: the first one starts it, and it ends with
    /// the process.
    ///
    /// It has no controller manager.
    pub async fn shared() -> Result<Arc<Self>, StartError> {
        share(&SHARED, Self::builder()).await
    }

    /// [`ControlPlane::shared`] with a controller manager; another plane than that one.
    pub async fn shared_with_controllers() -> Result<Arc<Self>, StartError> {
        share(
            &SHARED_WITH_CONTROLLERS,
            Self::builder().controller_manager(true),
        )
        .await
    }

    /// Where the API server listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.processes.lock()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Certificates, logs, kubeconfigs and etcd's data; gone when the plane is.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        self.layout.directory()
    }

    /// The API server's log of requests.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        self.layout.audit_log()
    }

    #[must_use]
    pub fn log(&self, component: Component) -> PathBuf {
        self.layout.log(component)
    }

    #[must_use]
    pub fn has_controller_manager(&self) -> bool {
        self.controller_manager
    }

    /// The ids of the plane's processes.
    #[must_use]
    pub fn process_ids(&self) -> Vec<u32> {
        self.processes().ids()
    }
}

async fn share(
    shared: &SharedPlane,
    builder: ControlPlaneBuilder,
) -> Result<Arc<ControlPlane>, StartError> {
    let started = shared.get_or_try_init(async || builder.start().await.map(Arc::new));
    started.await.cloned()
}
