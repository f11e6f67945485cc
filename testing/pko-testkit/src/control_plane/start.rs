//! Starts a control plane and waits until it is ready.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::Request;
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, sleep};

use super::access::{self, AccessError};
use super::certificates::{Authority, CertificateError};
use super::flags::{Layout, LayoutError};
use super::processes::{Ended, Processes};
use super::{ControlPlane, InstallError, ports};
use crate::components::{Component, Components, ComponentsError};

/// How often other ports are tried when one was taken between choice and use.
const ATTEMPTS: usize = 5;
/// Generous, for a machine that is busy compiling.
const DEADLINE: Duration = Duration::from_mins(2);
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
/// Who the built-in controllers are to the API server.
pub(super) const CONTROLLERS: &str = "system:kube-controller-manager";

#[derive(Debug, Default)]
pub struct ControlPlaneBuilder {
    controller_manager: bool,
    components: Option<Components>,
    crds: Vec<Value>,
}

impl ControlPlaneBuilder {
    /// Whether the built-in controllers run. Without them no StatefulSet gets pods, nothing is
    /// garbage collected, namespaces do not end, and no service account appears by itself.
    ///
    /// The garbage collector notices new kinds only every 30 seconds; see
    /// [`ControlPlaneBuilder::crds`].
    #[must_use]
    pub fn controller_manager(mut self, wanted: bool) -> Self {
        self.controller_manager = wanted;
        self
    }

    /// Overrides the source of the programs.
    #[must_use]
    pub fn components(mut self, components: Components) -> Self {
        self.components = Some(components);
        self
    }

    /// Installs CRDs before the built-in controllers start, which then handle these kinds
    /// immediately.
    #[must_use]
    pub fn crds(mut self, crds: Vec<Value>) -> Self {
        self.crds = crds;
        self
    }

    /// Starts it, which takes seconds; minutes where components have to be built first.
    pub async fn start(self) -> Result<ControlPlane, StartError> {
        let programs = spawn_blocking(move || Programs::find(self)).await??;
        let mut attempt = 1;
        loop {
            match programs.start().await {
                Err(error) if error.is_port_taken() && attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }
}

struct Programs {
    components: Components,
    etcd: PathBuf,
    apiserver: PathBuf,
    controller_manager: bool,
    crds: Vec<Value>,
}

impl Programs {
    fn find(builder: ControlPlaneBuilder) -> Result<Self, ComponentsError> {
        let components = match builder.components {
            Some(components) => components,
            None => Components::from_environment()?,
        };
        if builder.controller_manager {
            // It is there when it is started
            components.path(Component::KubeControllerManager)?;
        }
        Ok(Self {
            etcd: components.path(Component::Etcd)?,
            apiserver: components.path(Component::KubeApiserver)?,
            controller_manager: builder.controller_manager,
            crds: builder.crds,
            components,
        })
    }

    async fn start(&self) -> Result<ControlPlane, StartError> {
        let plane = self.prepare()?;
        plane.run(
            Component::Etcd,
            plane.layout.etcd(&self.etcd, plane.etcd_port),
        )?;
        plane.start_api_server().await?;
        plane.install_crds(&self.crds).await.map_err(Box::new)?;
        if self.controller_manager {
            plane.start_controllers()?;
            let proof = "/api/v1/namespaces/default/serviceaccounts/default";
            plane
                .wait_for(Component::KubeControllerManager, proof)
                .await?;
        }
        Ok(plane)
    }

    fn prepare(&self) -> Result<ControlPlane, StartError> {
        let directory = TempDir::with_prefix("pko-control-plane-")?;
        let processes = Processes::new(directory.path()).map_err(StartError::ProcessGroup)?;
        let layout = Layout::new(directory.path());
        let authority = Authority::new()?;
        let plane = ControlPlane {
            processes: Mutex::new(processes),
            layout,
            authority,
            _directory: directory,
            components: self.components.clone(),
            apiserver: self.apiserver.clone(),
            port: ports::free()?,
            etcd_port: ports::free()?,
            controller_manager: self.controller_manager,
        };
        plane.layout.write(&plane.authority)?;
        access::write_kubeconfigs(&plane.layout, &plane.url(), &plane.authority)?;
        Ok(plane)
    }
}

impl ControlPlane {
    pub(super) fn run(
        &self,
        component: Component,
        mut command: std::process::Command,
    ) -> Result<(), StartError> {
        let name = component.name();
        self.processes()
            .start(name, &mut command, self.layout.log(component))
            .map_err(|source| StartError::Run { name, source })
    }

    /// Waits until a path exists, which means that a component is ready.
    pub(super) async fn wait_for(
        &self,
        component: Component,
        path: &str,
    ) -> Result<(), StartError> {
        let mut config = self.config_as(access::ADMIN, &[access::MASTERS])?;
        config.default_retry = false;
        // A server that accepts and never answers must not outlast the deadline
        config.read_timeout = Some(PATIENCE);
        let client = Client::try_from(config).map_err(AccessError::from)?;
        let deadline = Instant::now() + DEADLINE;
        loop {
            let answer = match Request::get(path).body(Vec::new()) {
                Ok(request) => client.request_text(request).await,
                Err(error) => Err(kube::Error::HttpError(error)),
            };
            if let Some(ended) = self.processes().check_ended()? {
                return Err(StartError::Ended(ended));
            }
            match answer {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    let name = component.name();
                    let log = self.processes().log_tail(name);
                    return Err(StartError::NotReady {
                        name,
                        log,
                        source: error,
                    });
                }
                Err(_) => sleep(PAUSE).await,
            }
        }
    }
}

/// Why a control plane did not start.
#[derive(thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Components(#[from] ComponentsError),
    /// A certificate can't be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A file can't be written.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// There is no way in.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A CRD is not installed.
    #[error(transparent)]
    Crds(#[from] Box<InstallError>),
    /// No directory, no port, or no news of a process.
    #[error("failed to prepare a control plane")]
    Prepare(#[from] io::Error),
    /// The program that cleans up can't be started.
    #[error("failed to start `sh`, which cleans up after a control plane")]
    ProcessGroup(#[source] io::Error),
    #[error("failed to start {name}")]
    Run {
        name: &'static str,
        source: io::Error,
    },
    #[error("{} ended ({}); the end of its log:\n{}", .0.name, .0.status, .0.log)]
    Ended(Ended),
    #[error("{name} was not ready in {} s; the end of its log:\n{log}", DEADLINE.as_secs())]
    NotReady {
        name: &'static str,
        /// The last lines of its log.
        log: String,
        source: kube::Error,
    },
    /// The thread that builds components panicked.
    #[error("failed to find the components")]
    Find(#[from] JoinError),
}

crate::error_text::debug_is_text!(StartError);

impl StartError {
    fn is_port_taken(&self) -> bool {
        matches!(self, Self::Ended(ended) if ended.log.contains("address already in use"))
    }
}
