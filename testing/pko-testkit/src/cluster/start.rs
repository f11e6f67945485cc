//! Brings a cluster up, and waits until pods can run on it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::{Api, Client};
use tokio::task::spawn_blocking;

use super::namespaces::{Namespaces, run};
use super::network::Network;
use super::parts::{API_SERVICE, Part};
use super::place::{Place, attempt};
use super::{Cluster, ClusterError, Guard, Options, PAUSE_IMAGE, cgroups, end, images, machine};
use crate::components::{Component, Components};
use crate::eventually::eventually_within;
use crate::last_lines::last_lines;

/// Generous, for a machine that is busy compiling.
const DEADLINE: Duration = Duration::from_mins(3);
/// A part that was not seen for so many looks in a row has ended: one that is just being started is not there at once.
const ABSENCES: u32 = 60;

impl Cluster {
    /// Brings a cluster up, unless one by this name is up and well: then it is that one.
    ///
    /// Takes half a minute; where programs have to be installed or built first, minutes.
    pub async fn up(options: Options) -> Result<Self, ClusterError> {
        let place = Place::of(&options.name)?;
        let lock = place.lock()?;
        let options = Box::new(options);
        let (options, components) = match spawn_blocking(move || prepare(options)).await? {
            Ok(prepared) => prepared,
            Err(error) => {
                lock.remove();
                return Err(error);
            }
        };
        if let Some(running) = Self::running(&place, &options, &components).await {
            return Ok(running);
        }
        end::take_down(&place)?;
        let guard = (!options.stays).then(|| Guard::new(&place, &options.helper));
        let guard = guard.transpose().map_err(ClusterError::Guard)?;
        attempt("create", &place.path("home"), |path| {
            fs::create_dir_all(path)
        })?;
        // Keys are in it that may do everything
        attempt("close", place.folder(), |folder| {
            fs::set_permissions(folder, Permissions::from_mode(0o700))
        })?;
        let cluster = Self::make(place, &options, components, guard)?;
        cluster.start(&options).await?;
        Ok(cluster)
    }

    /// The namespaces, their network, and the files of the parts.
    fn make(
        place: Place,
        options: &Options,
        components: Components,
        guard: Option<Guard>,
    ) -> Result<Self, ClusterError> {
        cgroups::create(&place)?;
        place.write("resolv.conf", "")?;
        let pause = Components::own(Component::Pause)?;
        let namespaces = Namespaces::start(&place, &pause)?;
        let network = Network::connect(&place, &namespaces)?;
        images::write_program_image(&place, Component::Pause.name(), &pause)?;
        let cluster = Self {
            guard,
            helper: options.helper.clone(),
            found: false,
            place,
            namespaces,
            network,
            components,
        };
        cluster.parts().write()?;
        Ok(cluster)
    }

    async fn start(&self, options: &Options) -> Result<(), ClusterError> {
        (options.say)("starting etcd, kube-apiserver and containerd");
        for part in [Part::Etcd, Part::Containerd, Part::ApiServer] {
            self.start_part(part)?;
        }
        self.wait_for(Part::Containerd, "containerd", async |cluster| {
            images::is_ready(&cluster.namespaces).map_err(|error| error.to_string())
        })
        .await?;
        let pause = self.place.path(&format!("{}.tar", Component::Pause.name()));
        self.load_image(&pause, PAUSE_IMAGE)?;
        self.wait_for_api_server().await?;
        (options.say)("starting the controllers, the scheduler, the kubelet, kube-proxy and names");
        for part in [
            Part::Controllers,
            Part::Scheduler,
            Part::Kubelet,
            Part::Proxy,
            Part::Names,
        ] {
            self.start_part(part)?;
        }
        self.wait_until_pods_run().await
    }

    pub(super) fn start_part(&self, part: Part) -> Result<(), ClusterError> {
        let command = self.parts().command(part)?;
        let log = self.place.log(part.name());
        self.namespaces.spawn(&self.place, &command, &log)
    }

    /// Waits until the API server answers, and has what it makes for itself.
    pub(super) async fn wait_for_api_server(&self) -> Result<(), ClusterError> {
        let client = self.client().await?;
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            let client = client.clone();
            self.wait_for(Part::ApiServer, "the API server", async |_| {
                ask(&client, path).await
            })
            .await?;
        }
        Ok(())
    }

    async fn wait_until_pods_run(&self) -> Result<(), ClusterError> {
        let client = self.client().await?;
        let nodes = Api::all(client.clone());
        self.wait_for(Part::Kubelet, "the node", async |cluster| {
            is_ready(&nodes, &cluster.parts().node_name()).await
        })
        .await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client, "default");
        self.wait_for(Part::Controllers, "the first service account", async |_| {
            let account = accounts.get("default").await;
            account.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        let address = format!("{API_SERVICE}:443");
        self.wait_for(Part::Proxy, "the addresses of Services", async |cluster| {
            cluster.try_inside(&["connect", &address])
        })
        .await?;
        let name = "kubernetes.default.svc.cluster.local";
        self.wait_for(Part::Names, "the names of Services", async |cluster| {
            cluster.try_inside(&["lookup", name])
        })
        .await
    }

    /// Tries something from the node, as a pod on its network would.
    fn try_inside(&self, arguments: &[&str]) -> Result<(), String> {
        let program = self.place.path("node-init");
        let tried = run(self.namespaces.command(&program).args(arguments));
        tried.map(drop).map_err(|error| error.to_string())
    }

    /// Asks until there is an answer, or until the part that should give it has ended.
    async fn wait_for(
        &self,
        part: Part,
        what: &str,
        question: impl AsyncFn(&Self) -> Result<(), String>,
    ) -> Result<(), ClusterError> {
        let program = self.parts().program(part)?;
        let log = self.place.log(part.name());
        let mut absent = 0;
        let waited = eventually_within(DEADLINE, what, async || {
            let answer = question(self).await;
            let is_absent = self.namespaces.running(&program).is_empty();
            absent = if is_absent { absent + 1 } else { 0 };
            if answer.is_err() && absent > ABSENCES {
                return Ok(Err(ClusterError::Ended {
                    name: part.name(),
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
fn prepare(options: Box<Options>) -> Result<(Box<Options>, Components), ClusterError> {
    machine::prepare(&options.say)?;
    let components = Components::from_environment()?;
    for component in Component::ALL.into_iter().chain(Component::NODE) {
        components.path(component)?;
    }
    Components::own(Component::Pause)?;
    Ok((options, components))
}

async fn ask(client: &Client, path: &str) -> Result<(), String> {
    let request = Request::get(path).body(Vec::new());
    let request = request.map_err(|error| error.to_string())?;
    let answer = client.request_text(request).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// A node is ready when it says so and nothing keeps pods away from it any more.
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
