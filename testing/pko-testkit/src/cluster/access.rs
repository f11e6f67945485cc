//! Access to a cluster: clients, kubectl, commands on its network, and faults.

use std::path::{Path, PathBuf};
use std::process::Command;

use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use super::component_config::ClusterComponent;
use super::namespaces::{run, search_path};
use super::processes::NodeProcess;
use super::{Cluster, ClusterError, images};
use crate::components::Component;
use crate::control_plane::{ADMIN, Layout};

impl Cluster {
    /// A client that may do everything, from the host as well as from the node's network.
    ///
    /// A client belongs to the runtime in which it is made: make one per test, don't keep it.
    pub async fn client(&self) -> Result<Client, ClusterError> {
        Ok(Client::try_from(self.config().await?)?)
    }

    /// The configuration of [`Cluster::client`]. Set `auth_info.impersonate` to act as another
    /// user.
    pub async fn config(&self) -> Result<Config, ClusterError> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        let options = KubeConfigOptions::default();
        Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
    }

    /// The path of a kubeconfig that may do everything.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        Layout::new(self.dir.folder()).kubeconfig(ADMIN)
    }

    /// A kubectl that may do everything here, and neither reads nor writes the user's files.
    pub fn kubectl(&self) -> Result<Command, ClusterError> {
        let mut command = Command::new(self.components.path(Component::Kubectl)?);
        command
            .arg("--kubeconfig")
            .arg(self.kubeconfig())
            .env("HOME", self.dir.path("home"))
            .env("NO_PROXY", "*")
            .env_remove("KUBECONFIG")
            .env_remove("KUBERC")
            .env_remove("KUBECACHEDIR");
        Ok(command)
    }

    /// A command on the node's network, in the caller's folder, with `KUBECONFIG` set, and with a
    /// kubectl if the caller has none.
    pub fn command(&self, program: &str, arguments: &[String]) -> Result<Command, ClusterError> {
        let mut path = search_path();
        let kubectl = self.components.path(Component::Kubectl)?;
        if let Some(folder) = kubectl.parent() {
            path.push(":");
            path.push(folder);
        }
        let mut command = self.namespaces.command("sh");
        command
            .args(["-c", r#"cd "$1" && shift && exec "$@""#, "sh"])
            .arg(std::env::current_dir().unwrap_or_else(|_| "/".into()))
            .arg(program)
            .args(arguments)
            .env("PATH", path)
            .env("KUBECONFIG", self.kubeconfig())
            .env("NO_PROXY", "*")
            .env("no_proxy", "*");
        Ok(command)
    }

    /// Loads an image from an OCI layout, or from an archive of one, under a full name such as
    /// `docker.io/local/agent:1`.
    ///
    /// Pods need `imagePullPolicy: Never` or `IfNotPresent`: there is no registry.
    pub fn load_image(&self, image: &Path, reference: &str) -> Result<(), ClusterError> {
        images::load(&self.dir, &self.namespaces, image, Some(reference)).map(drop)
    }

    /// The same under the image's own names, as set by `cargo xtask image`. Returns the names.
    pub fn load_named_image(&self, image: &Path) -> Result<Vec<String>, ClusterError> {
        images::load(&self.dir, &self.namespaces, image, None)
    }

    /// A container's log, or that of its previous run.
    pub async fn pod_logs(
        &self,
        namespace: &str,
        pod: &str,
        container: Option<&str>,
        previous: bool,
    ) -> Result<String, ClusterError> {
        let pods: Api<Pod> = Api::namespaced(self.client().await?, namespace);
        let parameters = LogParams {
            container: container.map(str::to_owned),
            previous,
            ..LogParams::default()
        };
        Ok(pods.logs(pod, &parameters).await?)
    }

    /// Every process on the node: the cluster's own parts, and those of all pods.
    #[must_use]
    pub fn node_processes(&self) -> Vec<NodeProcess> {
        self.namespaces.processes()
    }

    /// Kills a component, as a crash does. Pods survive the kubelet.
    pub fn stop(&self, component: ClusterComponent) -> Result<(), ClusterError> {
        self.namespaces
            .stop(&self.component_config().program(component)?)
    }

    /// Starts a stopped component. Waits only for the API server.
    pub async fn start_again(&self, component: ClusterComponent) -> Result<(), ClusterError> {
        self.start_part(component)?;
        match component {
            ClusterComponent::ApiServer => self.wait_for_api_server().await,
            _ => Ok(()),
        }
    }

    /// Kills the API server, starts it again and waits until it is ready.
    pub async fn restart_api_server(&self) -> Result<(), ClusterError> {
        self.stop(ClusterComponent::ApiServer)?;
        self.start_again(ClusterComponent::ApiServer).await
    }

    pub fn stop_kubelet(&self) -> Result<(), ClusterError> {
        self.stop(ClusterComponent::Kubelet)
    }

    pub fn start_kubelet(&self) -> Result<(), ClusterError> {
        self.start_part(ClusterComponent::Kubelet)
    }

    /// Runs a kubectl command and returns its output.
    pub fn run_kubectl(&self, arguments: &[&str]) -> Result<String, ClusterError> {
        let output = run(self.kubectl()?.args(arguments))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
