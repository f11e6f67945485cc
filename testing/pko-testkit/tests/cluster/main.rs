//! A real cluster: pods, faults, and complete removal.
#![expect(clippy::unwrap_used, reason = "a failing step fails the test")]

mod cleanup;
mod faults;
mod machine_state;
mod pods;

use pko_testkit::cluster::ClusterOptions;
use pko_testkit::{Cluster, skip};

use machine_state::MachineState;

/// Whether the test runs; it is skipped where this machine cannot run a cluster.
fn can_run() -> bool {
    let obstacle = Cluster::obstacle();
    if let Some(obstacle) = &obstacle {
        skip(obstacle);
    }
    obstacle.is_none()
}

/// One cluster for all of it: bringing one up is what takes time.
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

    pods::reach_the_api_server_and_services_by_name(&cluster).await;
    pods::of_a_stateful_set_have_names(&cluster).await;
    pods::keep_files_on_volumes(&cluster).await;
    pods::run_images_that_were_loaded(&cluster).await;
    pods::must_keep_the_rules_of_their_namespace(&cluster);
    faults::the_api_server_comes_back(&cluster).await;
    faults::pods_run_on_without_a_kubelet(&cluster).await;
    faults::it_is_up_already(&cluster).await;

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
