//! A real cluster: pods, faults, and complete removal.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failing step fails the test"
)]

mod cleanup;
mod faults;
mod machine_state;
mod pods;

use pko_testkit::cluster::ClusterOptions;
use pko_testkit::{Cluster, skip};

use machine_state::MachineState;

/// Skips the test if this machine can't run a cluster.
fn can_run() -> bool {
    let obstacle = Cluster::obstacle();
    if let Some(obstacle) = &obstacle {
        skip(obstacle);
    }
    obstacle.is_none()
}

/// One cluster for all steps, because bringing one up takes time.
#[tokio::test]
async fn cluster_runs_pods_survives_faults_and_leaves_nothing() {
    if !can_run() {
        return;
    }
    let name = "testkit";
    Cluster::take_down(name).unwrap();
    let before = MachineState::of(name);
    before.assert_no_cluster();
    let cluster = Cluster::up(ClusterOptions::for_test(name)).await.unwrap();
    assert!(!cluster.was_up());

    pods::pods_reach_services_by_name(&cluster).await;
    pods::stateful_set_pods_have_dns_names(&cluster).await;
    pods::pods_use_persistent_volumes(&cluster).await;
    pods::pods_run_loaded_images(&cluster).await;
    pods::pod_security_is_enforced(&cluster);
    faults::api_server_restarts(&cluster).await;
    faults::pods_survive_kubelet_restart(&cluster).await;
    faults::running_cluster_is_found(&cluster).await;

    let processes = cluster.node_processes();
    assert!(processes.len() >= 9, "{processes:?}");
    let folder = cluster.folder().to_owned();
    cluster.down().unwrap();
    assert!(!folder.exists());
    for process in processes {
        assert!(!machine_state::runs(process.id), "{process:?} still runs");
    }
    assert_eq!(MachineState::of(name), before);
}
