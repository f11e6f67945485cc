//! The addresses of a cluster, and its link to the host.
//!
//! Host and node are the two ends of a veth pair. The host gets a route to the pods and nothing
//! else: no packet rule, no forwarding. The node reaches nothing beyond the host.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::ClusterError;
use super::cluster_dir::{ClusterDir, attempt};
use super::namespaces::{NodeNamespaces, run};

/// The maximum number of clusters on one machine.
const MOST: u8 = 100;
const NUMBER: &str = "number";
/// The addresses of Services, as the API server's flag has them.
const SERVICES: &str = "10.96.0.0/16";
/// The interface on the node.
const INTERFACE: &str = "eth0";

/// The number of a cluster on this machine, which determines its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeNetwork(u8);

impl NodeNetwork {
    /// Connects a node with the host by the first cable that is free.
    pub(super) fn connect(
        dir: &ClusterDir,
        namespaces: &NodeNamespaces,
    ) -> Result<Self, ClusterError> {
        let mut number = 0;
        let network = loop {
            let network = Self(number);
            // Recorded first, so that a cleanup finds it
            dir.write(NUMBER, number.to_string())?;
            match network.plug_in(namespaces) {
                Ok(()) => break network,
                Err(_) if network.exists() && number < MOST => number += 1,
                Err(error) => return Err(error),
            }
        };
        network.configure(namespaces)?;
        Ok(network)
    }

    /// The network of the cluster in a folder.
    pub(super) fn of(dir: &ClusterDir) -> Option<Self> {
        let number = fs::read_to_string(dir.path(NUMBER)).ok()?;
        number.trim().parse().ok().map(Self)
    }

    fn cable(self) -> String {
        format!("pko{}", self.0)
    }

    /// The host's end. The range is set aside for tests of networks, so nothing else is there.
    pub(super) fn host(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.0, 1)
    }

    /// The node's end, which is the node's address.
    pub(super) fn node(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, self.0, 2)
    }

    pub(super) fn pods(self) -> String {
        format!("10.244.{}.0/24", self.0)
    }

    fn exists(self) -> bool {
        Path::new("/sys/class/net").join(self.cable()).exists()
    }

    fn plug_in(self, namespaces: &NodeNamespaces) -> Result<(), ClusterError> {
        let mut command = Command::new("ip");
        command
            .args(["link", "add", &self.cable(), "type", "veth", "peer"])
            .args(["name", INTERFACE, "netns"])
            .arg(namespaces.first().to_string());
        run(&mut command).map(drop)
    }

    fn configure(self, namespaces: &NodeNamespaces) -> Result<(), ClusterError> {
        let (cable, host, node) = (self.cable(), self.host(), self.node());
        let inside = [
            format!("address add {node}/30 dev {INTERFACE}"),
            format!("link set {INTERFACE} up"),
            // The node routes before kube-proxy's rules rewrite the address
            format!("route add {SERVICES} dev {INTERFACE}"),
        ];
        let outside = [
            format!("address add {host}/30 dev {cable}"),
            format!("link set {cable} up"),
            format!("route add {} via {node} dev {cable}", self.pods()),
        ];
        for line in inside {
            run(namespaces.command("ip").args(line.split(' ')))?;
        }
        for line in outside {
            run(Command::new("ip").args(line.split(' ')))?;
        }
        Ok(())
    }

    /// Pulls the cable out. The kernel does so too when the node has gone, a moment later.
    pub(super) fn disconnect(self) {
        if self.exists() {
            let _ = run(Command::new("ip").args(["link", "delete", &self.cable()]));
        }
    }

    /// Writes the CNI configuration.
    pub(super) fn write(self, dir: &ClusterDir) -> Result<(), ClusterError> {
        let folder = dir.path("cni");
        attempt("create", &folder, |path| fs::create_dir_all(path))?;
        let configuration = json!({
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [{
                "type": "bridge",
                "bridge": "pods",
                "isDefaultGateway": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{ "subnet": self.pods() }]],
                    "dataDir": "/run/cni-addresses",
                },
            }],
        });
        dir.write("cni/pods.conflist", format!("{configuration:#}"))?;
        // An empty one would mean the machine itself to some
        let resolver = format!("nameserver {}\n", self.node());
        dir.write("resolv.conf", resolver).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_have_distinct_addresses() {
        let (one, other) = (NodeNetwork(0), NodeNetwork(7));
        assert_eq!(one.node().to_string(), "198.18.0.2");
        assert_eq!(other.host().to_string(), "198.18.7.1");
        assert_eq!(other.pods(), "10.244.7.0/24");
        assert_ne!(one.cable(), other.cable());
    }
}
