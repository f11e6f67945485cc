//! The command lines and configuration files of a cluster's components.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::cluster_dir::ClusterDir;
use super::network::NodeNetwork;
use super::{ClusterError, cgroups, images, prerequisites};
use crate::components::{Component, Components};
use crate::control_plane::{ADMIN, Authority, Layout, MASTERS, write_kubeconfig};

/// Default ports, because the network namespace is the cluster's own.
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
const COREDNS: &str = "coredns";
const KUBELET_CLIENT: &str = "kube-apiserver-kubelet-client";

/// A program that runs for as long as the cluster does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterComponent {
    Etcd,
    ApiServer,
    /// The built-in controllers, all of them.
    Controllers,
    Scheduler,
    Containerd,
    Kubelet,
    Proxy,
    CoreDns,
}

impl ClusterComponent {
    /// All of them, in the order in which they are started.
    pub const ALL: [Self; 8] = [
        Self::Etcd,
        Self::Containerd,
        Self::ApiServer,
        Self::Controllers,
        Self::Scheduler,
        Self::Kubelet,
        Self::Proxy,
        Self::CoreDns,
    ];

    /// The base name of its log.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.component().map_or("containerd", Component::name)
    }

    pub(super) fn component(self) -> Option<Component> {
        match self {
            Self::Etcd => Some(Component::Etcd),
            Self::ApiServer => Some(Component::KubeApiserver),
            Self::Controllers => Some(Component::KubeControllerManager),
            Self::Scheduler => Some(Component::KubeScheduler),
            Self::Kubelet => Some(Component::Kubelet),
            Self::Proxy => Some(Component::KubeProxy),
            Self::CoreDns => Some(Component::CoreDns),
            Self::Containerd => None,
        }
    }
}

/// Generates command lines and configuration files.
pub(super) struct ComponentConfig<'a> {
    pub(super) dir: &'a ClusterDir,
    pub(super) network: NodeNetwork,
    pub(super) components: &'a Components,
}

impl ComponentConfig<'_> {
    /// The program of a component.
    pub(super) fn program(&self, component: ClusterComponent) -> Result<PathBuf, ClusterError> {
        match component.component() {
            Some(component) => Ok(self.components.path(component)?),
            None => prerequisites::program(component.name()).ok_or_else(|| {
                ClusterError::Impossible(format!("{} is missing", component.name()))
            }),
        }
    }

    /// The command line of a component.
    pub(super) fn command(&self, component: ClusterComponent) -> Result<Command, ClusterError> {
        let program = self.program(component)?;
        let layout = Layout::new(self.dir.folder());
        let file = |name: &str| self.dir.text(name);
        let mut command = match component {
            ClusterComponent::Etcd => layout.etcd(&program, ETCD_PORT),
            ClusterComponent::ApiServer => layout.apiserver(&program, API_PORT, ETCD_PORT),
            ClusterComponent::Controllers => {
                layout.controller_manager(&program, &layout.kubeconfig(CONTROLLERS))
            }
            _ => Command::new(program),
        };
        let own = match component {
            ClusterComponent::Etcd => Vec::new(),
            ClusterComponent::ApiServer => self.api_server(),
            // Of a flag that is given twice the second one counts
            ClusterComponent::Controllers => vec!["--controllers=*".to_owned()],
            ClusterComponent::Scheduler => vec![
                format!("--kubeconfig={}", layout.kubeconfig(SCHEDULER).display()),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
            ],
            ClusterComponent::Containerd => vec!["--config".to_owned(), file("containerd.toml")],
            ClusterComponent::Kubelet => vec![
                format!(
                    "--kubeconfig={}",
                    layout.kubeconfig(&self.node_user()).display()
                ),
                format!("--config={}", file("kubelet.json")),
                format!("--root-dir={}", file("kubelet")),
                format!("--hostname-override={}", self.node_name()),
                format!("--node-ip={}", self.network.node()),
            ],
            ClusterComponent::Proxy => vec![format!("--config={}", file("kube-proxy.json"))],
            ClusterComponent::CoreDns => vec!["-conf".to_owned(), file("Corefile")],
        };
        command.args(own);
        Ok(command)
    }

    /// Flags that differ from a control plane without nodes.
    fn api_server(&self) -> Vec<String> {
        let file = |name: &str| self.dir.text(name);
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
        format!("pko-{}", self.dir.name())
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
        self.network.write(self.dir)?;
        self.dir.write("containerd.toml", self.containerd()?)?;
        let kubeconfig = Layout::new(self.dir.folder()).kubeconfig(COREDNS);
        let corefile = corefile(self.network.node(), &kubeconfig);
        self.dir.write("Corefile", corefile)?;
        let json = |value: &Value| format!("{value:#}");
        self.dir.write("kubelet.json", json(&self.kubelet()))?;
        self.dir.write("kube-proxy.json", json(&self.proxy()))?;
        Ok(())
    }

    fn write_certificates(&self) -> Result<(), ClusterError> {
        let authority = Authority::new()?;
        let layout = Layout::new(self.dir.folder());
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
            (COREDNS, &[MASTERS]),
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
        let plugins = prerequisites::plugins().ok_or_else(|| {
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
            root = self.dir.text("containerd"),
            snapshotter = images::snapshotter(self.dir),
            plugins = plugins.display(),
            configurations = self.dir.text("cni"),
        ))
    }

    fn kubelet(&self) -> Value {
        let file = |name: &str| self.dir.text(name);
        // Pods are not evicted from a nearly full machine
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
            "cgroupRoot": cgroups::name(self.dir),
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
        let layout = Layout::new(self.dir.folder());
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

/// Names outside of the cluster do not exist: the node reaches nothing beyond the host.
fn corefile(address: Ipv4Addr, kubeconfig: &Path) -> String {
    format!(
        r".:53 {{
    bind {address}
    errors
    kubernetes cluster.local {{
        kubeconfig {kubeconfig}
        ttl 1
    }}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
",
        kubeconfig = kubeconfig.display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corefile_serves_cluster_and_denies_other_names() {
        let address = Ipv4Addr::new(198, 18, 0, 2);
        let text = corefile(address, Path::new("/cluster/coredns.kubeconfig"));
        for line in [
            "    bind 198.18.0.2\n",
            "    kubernetes cluster.local {\n        kubeconfig /cluster/coredns.kubeconfig\n",
            "    template ANY ANY {\n        rcode NXDOMAIN\n    }\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn component_names_are_distinct() {
        let names: std::collections::BTreeSet<_> =
            ClusterComponent::ALL.map(ClusterComponent::name).into();
        assert_eq!(names.len(), ClusterComponent::ALL.len());
        assert_eq!(ClusterComponent::Containerd.name(), "containerd");
        assert_eq!(ClusterComponent::CoreDns.name(), "coredns");
    }
}
