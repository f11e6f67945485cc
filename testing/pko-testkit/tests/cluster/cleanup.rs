//! A killed owner leaves nothing of its cluster, at any moment.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use pko_testkit::cluster::ClusterOptions;
use pko_testkit::{Cluster, eventually};

use crate::can_run;
use crate::machine_state::MachineState;

/// Set for the child process of a test, with the name of its cluster.
const CHILD: &str = "PKO_TESTKIT_CLUSTER_OWNER";

/// Not a test: the process that the next test kills.
#[tokio::test]
async fn cluster_owner_process() {
    let Some(kind) = std::env::var_os(CHILD) else {
        return;
    };
    let name = kind.to_str().unwrap();
    let mut options = ClusterOptions::for_test(name);
    options.keep = name == "testkit-stays";
    let _cluster = Cluster::up(options).await.unwrap();
    std::future::pending::<()>().await;
}

fn start(name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cleanup::cluster_owner_process", "--nocapture"])
        .env(CHILD, name)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The folder of a cluster that an owner begins to bring up.
async fn half_made(name: &str) -> PathBuf {
    let cache = std::env::var_os("PKO_CACHE").map(PathBuf::from);
    let user = || std::env::var_os("XDG_CACHE_HOME").map(|cache| PathBuf::from(cache).join("pko"));
    let home = || std::env::home_dir().map(|home| home.join(".cache/pko"));
    let cache = cache.or_else(user).or_else(home).unwrap();
    let folder = cache.join("cluster").join(name);
    eventually("a cluster to begin", async || {
        // The network is there, and etcd has begun to write
        let begun = folder.join("number").exists() && folder.join("etcd").exists();
        begun.then_some(()).ok_or("it has not begun")
    })
    .await
    .unwrap();
    folder
}

#[tokio::test]
async fn killed_cluster_owner_leaves_nothing() {
    if !can_run() {
        return;
    }
    for name in ["testkit-killed", "testkit-stays"] {
        Cluster::take_down(name).unwrap();
        let before = MachineState::of(name);
        before.assert_no_cluster();
        let mut owner = start(name);
        let folder = half_made(name).await;
        // SIGKILL: the owner's own cleanup does not run
        owner.kill().unwrap();
        owner.wait().unwrap();
        if name == "testkit-stays" {
            Cluster::take_down(name).unwrap();
        }
        eventually("nothing to be left", async || {
            let after = MachineState::of(name);
            let gone = after == before && !folder.exists();
            gone.then_some(()).ok_or_else(|| format!("{after:?}"))
        })
        .await
        .unwrap();
    }
}
