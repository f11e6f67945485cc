//! Components that are killed and restarted.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use pko_testkit::cluster::{ClusterComponent, ClusterOptions, PAUSE_IMAGE};
use pko_testkit::{Cluster, eventually};

use crate::pods::{apply, namespace, pod, wait_for};

/// The processes of a component.
fn ids(cluster: &Cluster, component: ClusterComponent) -> Vec<u32> {
    let name = format!("/{}", component.name());
    let mut processes = cluster.node_processes();
    processes.retain(|process| {
        process
            .arguments
            .first()
            .is_some_and(|it| it.ends_with(&name))
    });
    processes.iter().map(|process| process.id).collect()
}

pub(crate) async fn api_server_restarts(cluster: &Cluster) {
    let before = ids(cluster, ClusterComponent::ApiServer);
    cluster.restart_api_server().await.unwrap();
    let after = ids(cluster, ClusterComponent::ApiServer);
    assert!(
        before.len() == 1 && after.len() == 1 && before != after,
        "{before:?} {after:?}"
    );
    let nodes: Api<Node> = Api::all(cluster.client().await.unwrap());
    nodes.get(&cluster.node_name()).await.unwrap();
}

pub(crate) async fn pods_survive_kubelet_restart(cluster: &Cluster) {
    let server = pod(
        "faults",
        "server",
        PAUSE_IMAGE,
        &["serve", ":8080", "hello"],
    );
    apply(cluster, &[namespace("faults", "restricted"), server]).unwrap();
    let server = wait_for(cluster, "faults", "server", "Running").await;
    let address = format!("{}:8080", server.status.unwrap().pod_ip.unwrap());
    cluster.stop_kubelet().unwrap();
    assert!(ids(cluster, ClusterComponent::Kubelet).is_empty());
    // The host reaches pods by their addresses, too
    let mut said = String::new();
    let mut connection = std::net::TcpStream::connect(&address).unwrap();
    std::io::Read::read_to_string(&mut connection, &mut said).unwrap();
    assert_eq!(said, "hello\n");
    let late = pod("faults", "late", PAUSE_IMAGE, &["connect", &address]);
    apply(cluster, &[late]).unwrap();
    cluster.start_kubelet().unwrap();
    wait_for(cluster, "faults", "late", "Succeeded").await;
    cluster
        .run_kubectl(&["delete", "namespace", "faults"])
        .unwrap();
}

pub(crate) async fn running_cluster_is_found(cluster: &Cluster) {
    let name = cluster
        .folder()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    // The kubelet has just been away, and a node may not call itself ready at once
    eventually("the node to be ready", async || {
        let words = [
            "wait",
            "--for=condition=Ready",
            "nodes",
            "--all",
            "--timeout=10s",
        ];
        cluster
            .run_kubectl(&words)
            .map_err(|error| error.to_string())
    })
    .await
    .unwrap();
    let before = ids(cluster, ClusterComponent::Etcd);
    let options = ClusterOptions {
        keep: true,
        ..ClusterOptions::for_test(&name)
    };
    let same = Cluster::up(options).await.unwrap();
    assert!(same.was_up());
    assert_eq!(same.kubeconfig(), cluster.kubeconfig());
    assert_eq!(ids(&same, ClusterComponent::Etcd), before);
}
