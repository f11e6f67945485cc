//! Starts a cluster and waits until it can run pods.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::{Api, Client};
use tokio::task::spawn_blocking;

use super::cluster_dir::{ClusterDir, attempt};
use super::component_config::{API_SERVICE, ClusterComponent};
use super::namespaces::{NodeNamespaces, run};
use super::network::NodeNetwork;
use super::{
    Cluster, ClusterError, ClusterOptions, PAUSE_IMAGE, cgroups, images, prerequisites, teardown,
};
use crate::components::{Component, Components};
use crate::eventually::eventually_within;
use crate::last_lines::last_lines;
use crate::lifeline::Lifeline;

/// Generous, for a machine that is busy compiling.
const DEADLINE: Duration = Duration::from_mins(3);
/// A component that is absent in this many polls in a row has ended. A starting one appears with a
/// delay.
const ABSENCES: u32 = 60;

impl Cluster {
    /// Brings a cluster up, unless one by this name is up and well: then it is that one.
    ///
    /// Takes half a minute; where programs have to be installed or built first, minutes.
    pub async fn up(options: ClusterOptions) -> Result<Self, ClusterError> {
        let dir = ClusterDir::of(&options.name)?;
        let lock = dir.lock()?;
        let options = Box::new(options);
        let (options, components) = match spawn_blocking(move || prepare(options)).await? {
            Ok(prepared) => prepared,
            Err(error) => {
                lock.remove();
                return Err(error);
            }
        };
        if let Some(running) = Self::find_healthy(&dir, &options, &components).await {
            return Ok(running);
        }
        teardown::take_down(&dir)?;
        let lifeline = (!options.keep).then(|| teardown::lifeline(&dir));
        let lifeline = lifeline.transpose()?;
        attempt("create", &dir.path("home"), |path| fs::create_dir_all(path))?;
        // Keys are in it that may do everything
        attempt("close", dir.folder(), |folder| {
            fs::set_permissions(folder, Permissions::from_mode(0o700))
        })?;
        let cluster = Self::make(dir, components, lifeline)?;
        cluster.start(&options).await?;
        Ok(cluster)
    }

    /// The namespaces, their network, and the files of the parts.
    fn make(
        dir: ClusterDir,
        components: Components,
        lifeline: Option<Lifeline>,
    ) -> Result<Self, ClusterError> {
        cgroups::create(&dir)?;
        dir.write("resolv.conf", "")?;
        let pause = Components::built_path(Component::Pause)?;
        let namespaces = NodeNamespaces::start(&dir, &pause)?;
        let network = NodeNetwork::connect(&dir, &namespaces)?;
        images::write_program_image(&dir, Component::Pause.name(), &pause)?;
        let cluster = Self {
            lifeline,
            found: false,
            dir,
            namespaces,
            network,
            components,
        };
        cluster.component_config().write()?;
        Ok(cluster)
    }

    async fn start(&self, options: &ClusterOptions) -> Result<(), ClusterError> {
        (options.progress)("starting etcd, kube-apiserver and containerd");
        for component in [
            ClusterComponent::Etcd,
            ClusterComponent::Containerd,
            ClusterComponent::ApiServer,
        ] {
            self.start_part(component)?;
        }
        self.wait_for(
            ClusterComponent::Containerd,
            "containerd",
            async |cluster| {
                images::check_ready(&cluster.namespaces).map_err(|error| error.to_string())
            },
        )
        .await?;
        let pause = self.dir.path(&format!("{}.tar", Component::Pause.name()));
        self.load_image(&pause, PAUSE_IMAGE)?;
        self.wait_for_api_server().await?;
        (options.progress)(
            "starting the controllers, the scheduler, the kubelet, kube-proxy and CoreDNS",
        );
        for component in [
            ClusterComponent::Controllers,
            ClusterComponent::Scheduler,
            ClusterComponent::Kubelet,
            ClusterComponent::Proxy,
            ClusterComponent::CoreDns,
        ] {
            self.start_part(component)?;
        }
        self.wait_until_pods_run().await
    }

    pub(super) fn start_part(&self, component: ClusterComponent) -> Result<(), ClusterError> {
        let command = self.component_config().command(component)?;
        let log = self.dir.log(component.name());
        self.namespaces.spawn(&self.dir, &command, &log)
    }

    /// Waits until the API server is ready and has created its own objects.
    pub(super) async fn wait_for_api_server(&self) -> Result<(), ClusterError> {
        let client = self.client().await?;
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            let client = client.clone();
            self.wait_for(ClusterComponent::ApiServer, "the API server", async |_| {
                ask(&client, path).await
            })
            .await?;
        }
        Ok(())
    }

    async fn wait_until_pods_run(&self) -> Result<(), ClusterError> {
        let client = self.client().await?;
        let nodes = Api::all(client.clone());
        self.wait_for(ClusterComponent::Kubelet, "the node", async |cluster| {
            is_ready(&nodes, &cluster.component_config().node_name()).await
        })
        .await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
        self.wait_for(
            ClusterComponent::Controllers,
            "the first service account",
            async |_| {
                let account = accounts.get("default").await;
                account.map(drop).map_err(|error| error.to_string())
            },
        )
        .await?;
        let address = format!("{API_SERVICE}:443");
        self.wait_for(
            ClusterComponent::Proxy,
            "the addresses of Services",
            async |cluster| cluster.try_inside(&["connect", &address]),
        )
        .await?;
        let name = "kubernetes.default.svc.cluster.local";
        self.wait_for(
            ClusterComponent::CoreDns,
            "the names of Services",
            async |cluster| cluster.try_inside(&["lookup", name]),
        )
        .await
    }

    /// Tries something from the node, as a pod on its network would.
    fn try_inside(&self, arguments: &[&str]) -> Result<(), String> {
        let program = self.dir.path("node-init");
        let tried = run(self.namespaces.command(&program).args(arguments));
        tried.map(drop).map_err(|error| error.to_string())
    }

    /// Polls until there is a response, or until the component has ended.
    async fn wait_for(
        &self,
        component: ClusterComponent,
        what: &str,
        question: impl AsyncFn(&Self) -> Result<(), String>,
    ) -> Result<(), ClusterError> {
        let program = self.component_config().program(component)?;
        let log = self.dir.log(component.name());
        let mut absent = 0;
        let waited = eventually_within(DEADLINE, what, async || {
            let answer = question(self).await;
            let is_absent = self.namespaces.running(&program).is_empty();
            absent = if is_absent { absent + 1 } else { 0 };
            if answer.is_err() && absent > ABSENCES {
                return Ok(Err(ClusterError::Ended {
                    name: component.name(),
                    log: tail(&log),
                }));
            }
            answer.map(Ok)
        });
        match waited.await {
            Ok(answer) => answer,
            Err(late) => Err(ClusterError::NotReady {
                what: what.to_owned(),
                missing: late.to_string(),
                log: tail(&log),
            }),
        }
    }
}

/// Has everything at hand before anything is started.
fn prepare(
    options: Box<ClusterOptions>,
) -> Result<(Box<ClusterOptions>, Components), ClusterError> {
    prerequisites::prepare(&options.progress)?;
    let components = Components::from_environment()?;
    for component in Component::CONTROL_PLANE.into_iter().chain(Component::NODE) {
        components.path(component)?;
    }
    Components::built_path(Component::Pause)?;
    Ok((options, components))
}

async fn ask(client: &Client, path: &str) -> Result<(), String> {
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(|error| error.to_string())?;
    let answer = client.request_text(request).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// A node is ready when its Ready condition is true and it has no taints.
pub(super) async fn is_ready(nodes: &Api<Node>, name: &str) -> Result<(), String> {
    let node = nodes.get(name).await.map_err(|error| error.to_string())?;
    let conditions = node.status.unwrap_or_default().conditions;
    let ready = conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    let taints = node.spec.unwrap_or_default().taints.unwrap_or_default();
    match ready {
        Some(ready) if ready.status == "True" && taints.is_empty() => Ok(()),
        Some(ready) if ready.status == "True" => Err(format!("{taints:?}")),
        Some(ready) => Err(ready.message.clone().unwrap_or_default()),
        None => Err("the node has said nothing yet".to_owned()),
    }
}

fn tail(log: &Path) -> String {
    last_lines(&fs::read(log).unwrap_or_default())
}
