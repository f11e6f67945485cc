//! The parts of a cluster: their command lines, and the files that they read; all in the cluster's folder.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::network::Network;
use super::place::Place;
use super::{ClusterError, Helper, cgroups, images, machine};
use crate::components::{Component, Components};
use crate::control_plane::{ADMIN, Authority, Layout, MASTERS, write_kubeconfig};

/// Ports are the usual ones: nobody else is in this network.
pub(super) const API_PORT: u16 = 6443;
const ETCD_PORT: u16 = 2379;
const SOCKET: &str = "/run/containerd/containerd.sock";
/// The first address of those for Services is the API server's.
pub(super) const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const API_NAMES: [&str; 4] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// The image that holds pods together; tests may run it too.
pub const PAUSE_IMAGE: &str = "docker.io/local/pause:1";

const CONTROLLERS: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
const PROXY: &str = "system:kube-proxy";
const NAME_SERVER: &str = "pko-name-server";
const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// A program that runs for as long as the cluster does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// etcd.
    Etcd,
    /// The API server.
    ApiServer,
    /// The built-in controllers, all of them.
    Controllers,
    /// The scheduler.
    Scheduler,
    /// The container runtime.
    Containerd,
    /// The kubelet.
    Kubelet,
    /// kube-proxy.
    Proxy,
    /// Our name server.
    Names,
}

impl Part {
    /// All of them, in the order in which they are started.
    pub const ALL: [Self; 8] = [
        Self::Etcd,
        Self::Containerd,
        Self::ApiServer,
        Self::Controllers,
        Self::Scheduler,
        Self::Kubelet,
        Self::Proxy,
        Self::Names,
    ];

    /// What its log is called after.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.component() {
            Some(component) => component.name(),
            None if self == Self::Containerd => "containerd",
            None => "names",
        }
    }

    pub(super) fn component(self) -> Option<Component> {
        match self {
            Self::Etcd => Some(Component::Etcd),
            Self::ApiServer => Some(Component::KubeApiserver),
            Self::Controllers => Some(Component::KubeControllerManager),
            Self::Scheduler => Some(Component::KubeScheduler),
            Self::Kubelet => Some(Component::Kubelet),
            Self::Proxy => Some(Component::KubeProxy),
            Self::Containerd | Self::Names => None,
        }
    }
}

/// What the parts are told.
pub(super) struct Parts<'a> {
    pub(super) place: &'a Place,
    pub(super) network: Network,
    pub(super) components: &'a Components,
    pub(super) helper: &'a Helper,
}

impl Parts<'_> {
    /// The program of a part.
    pub(super) fn program(&self, part: Part) -> Result<PathBuf, ClusterError> {
        match part.component() {
            Some(component) => Ok(self.components.path(component)?),
            None if part == Part::Names => Ok(self.helper.program.clone()),
            None => machine::program(part.name())
                .ok_or_else(|| ClusterError::Impossible(format!("{} is missing", part.name()))),
        }
    }

    /// How a part is started.
    pub(super) fn command(&self, part: Part) -> Result<Command, ClusterError> {
        let program = self.program(part)?;
        let layout = Layout::new(self.place.folder());
        let file = |name: &str| self.place.text(name);
        let mut command = match part {
            Part::Etcd => layout.etcd(&program, ETCD_PORT),
            Part::ApiServer => layout.apiserver(&program, API_PORT, ETCD_PORT),
            Part::Controllers => {
                layout.controller_manager(&program, &layout.kubeconfig(CONTROLLERS))
            }
            _ => Command::new(program),
        };
        let own = match part {
            Part::Etcd => Vec::new(),
            Part::ApiServer => self.api_server(),
            // Of a flag that is given twice the second one counts
            Part::Controllers => vec!["--controllers=*".to_owned()],
            Part::Scheduler => vec![
                format!("--kubeconfig={}", layout.kubeconfig(SCHEDULER).display()),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
            ],
            Part::Containerd => vec!["--config".to_owned(), file("containerd.toml")],
            Part::Kubelet => vec![
                format!(
                    "--kubeconfig={}",
                    layout.kubeconfig(&self.node_user()).display()
                ),
                format!("--config={}", file("kubelet.json")),
                format!("--root-dir={}", file("kubelet")),
                format!("--hostname-override={}", self.node_name()),
                format!("--node-ip={}", self.network.node()),
            ],
            Part::Proxy => vec![format!("--config={}", file("kube-proxy.json"))],
            Part::Names => {
                command.args(&self.helper.arguments);
                vec![
                    "dns".to_owned(),
                    layout.kubeconfig(NAME_SERVER).display().to_string(),
                    format!("{}:53", self.network.node()),
                ]
            }
        };
        command.args(own);
        Ok(command)
    }

    /// What differs from a control plane without nodes.
    fn api_server(&self) -> Vec<String> {
        let file = |name: &str| self.place.text(name);
        vec![
            "--bind-address=0.0.0.0".to_owned(),
            format!("--advertise-address={}", self.network.node()),
            "--endpoint-reconciler-type=lease".to_owned(),
            format!("--kubelet-certificate-authority={}", file("ca.crt")),
            format!(
                "--kubelet-client-certificate={}",
                file("kubelet-client.crt")
            ),
            format!("--kubelet-client-key={}", file("kubelet-client.key")),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
        ]
    }

    pub(super) fn node_name(&self) -> String {
        format!("pko-{}", self.place.name())
    }

    fn node_user(&self) -> String {
        format!("system:node:{}", self.node_name())
    }

    pub(super) fn url(&self) -> String {
        format!("https://{}:{API_PORT}", self.network.node())
    }

    /// Writes everything that they read.
    pub(super) fn write(&self) -> Result<(), ClusterError> {
        self.write_certificates()?;
        self.network.write(self.place)?;
        self.place.write("containerd.toml", self.containerd()?)?;
        let json = |value: &Value| format!("{value:#}");
        self.place.write("kubelet.json", json(&self.kubelet()))?;
        self.place.write("kube-proxy.json", json(&self.proxy()))?;
        Ok(())
    }

    fn write_certificates(&self) -> Result<(), ClusterError> {
        let authority = Authority::new()?;
        let layout = Layout::new(self.place.folder());
        layout.write(&authority)?;
        let node = self.network.node();
        let server = authority.server_at("kube-apiserver", &[node, API_SERVICE], &API_NAMES)?;
        let kubelet = authority.server_at(&self.node_user(), &[node], &[&self.node_name()])?;
        let client = authority.client(KUBELET_CLIENT, &[MASTERS])?;
        for (name, identity) in [
            ("apiserver", &server),
            ("kubelet", &kubelet),
            ("kubelet-client", &client),
        ] {
            layout
                .write_identity(name, identity)
                .map_err(crate::control_plane::LayoutError::from)?;
        }
        let node_user = self.node_user();
        for (user, groups) in [
            (ADMIN, &[MASTERS][..]),
            (NAME_SERVER, &[MASTERS]),
            (CONTROLLERS, &[]),
            (SCHEDULER, &[]),
            (PROXY, &[]),
            (&node_user, &["system:nodes"]),
        ] {
            let identity = authority.client(user, groups)?;
            write_kubeconfig(&layout.kubeconfig(user), &self.url(), &authority, &identity)?;
        }
        Ok(())
    }

    fn containerd(&self) -> Result<String, ClusterError> {
        let plugins = machine::plugins().ok_or_else(|| {
            ClusterError::Impossible("the plugins that connect pods are missing".to_owned())
        })?;
        Ok(format!(
            r#"version = 2
root = "{root}"
state = "/run/containerd"
[grpc]
address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE_IMAGE}"
# Root of a machine that is itself confined may not spare a process from the kernel's choice
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{snapshotter}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{configurations}"
"#,
            root = self.place.text("containerd"),
            snapshotter = images::snapshotter(self.place),
            plugins = plugins.display(),
            configurations = self.place.text("cni"),
        ))
    }

    fn kubelet(&self) -> Value {
        let file = |name: &str| self.place.text(name);
        // A machine that is nearly full is no reason to evict a test
        let never = json!({
            "memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%",
        });
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": { "enabled": false },
                "webhook": { "enabled": true },
                "x509": { "clientCAFile": file("ca.crt") },
            },
            "authorization": { "mode": "Webhook" },
            "tlsCertFile": file("kubelet.crt"),
            "tlsPrivateKeyFile": file("kubelet.key"),
            "containerRuntimeEndpoint": format!("unix://{SOCKET}"),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroups::name(self.place),
            "failCgroupV1": false,
            "failSwapOn": false,
            "localStorageCapacityIsolation": false,
            "makeIPTablesUtilChains": false,
            "evictionHard": never,
            "imageGCHighThresholdPercent": 100,
            "clusterDomain": "cluster.local",
            "clusterDNS": [self.network.node()],
            "resolvConf": file("resolv.conf"),
            "volumePluginDir": file("volume-plugins"),
            "maxPods": 200,
        })
    }

    fn proxy(&self) -> Value {
        let layout = Layout::new(self.place.folder());
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "hostnameOverride": self.node_name(),
            "clientConnection": { "kubeconfig": layout.kubeconfig(PROXY).display().to_string() },
            "clusterCIDR": self.network.pods(),
            "detectLocalMode": "ClusterCIDR",
            // These are settings of the whole machine
            "conntrack": { "maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s" },
        })
    }
}
