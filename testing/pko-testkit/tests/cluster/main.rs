//! A real cluster, used as its users will, and what is left of it afterwards.
#![expect(clippy::unwrap_used, reason = "a failing step fails the test")]

mod ending;
mod faults;
mod pods;
mod traces;

use pko_testkit::cluster::Options;
use pko_testkit::{Cluster, skip};

use traces::Traces;

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
async fn pods_run_and_faults_pass_and_nothing_is_left() {
    if !can_run() {
        return;
    }
    let name = "testkit";
    Cluster::take_down(name).unwrap();
    let before = Traces::of(name);
    before.are_none();
    let cluster = Cluster::up(Options::for_test(name).unwrap()).await.unwrap();
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
        assert!(!traces::runs(process.id), "{process:?} still runs");
    }
    assert_eq!(Traces::of(name), before);
}
