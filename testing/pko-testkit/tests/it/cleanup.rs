//! Nothing of a control plane remains, however its owner ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pko_testkit::{ControlPlane, eventually};

/// Set for the child process of a test.
const CHILD: &str = "PKO_TESTKIT_OWNER";

#[tokio::test]
async fn plane_drop_kills_processes_and_removes_directory() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let (ids, directory) = (plane.process_ids(), plane.data_dir().to_owned());
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| runs(*id)));
    drop(plane);
    assert!(!ids.iter().any(|id| runs(*id)));
    assert!(!directory.exists());
}

#[tokio::test]
async fn plane_is_removed_after_panic() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let (ids, directory) = (plane.process_ids(), plane.data_dir().to_owned());
    let test = tokio::spawn(async move {
        let _plane = plane;
        panic!("as a test does");
    });
    assert!(test.await.unwrap_err().is_panic());
    assert!(!ids.iter().any(|id| runs(*id)));
    assert!(!directory.exists());
}

/// Not a test: the process that the next test kills.
#[tokio::test]
async fn plane_owner_process() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let plane = ControlPlane::builder().start().await.unwrap();
    let ids: Vec<String> = plane.process_ids().iter().map(u32::to_string).collect();
    println!("\nplane {} {}", plane.data_dir().display(), ids.join(" "));
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn killed_plane_owner_leaves_nothing() {
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "cleanup::plane_owner_process", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let line = lines.find_map(|line| line.strip_prefix("plane ").map(str::to_owned));
    let line = line.expect("the owner to tell its plane");
    let mut words = line.split(' ');
    let directory = PathBuf::from(words.next().unwrap());
    let ids: Vec<u32> = words.map(|word| word.parse().unwrap()).collect();
    assert!(
        directory.is_dir() && ids.len() == 3 && ids.iter().all(|id| runs(*id)),
        "{line}"
    );

    // SIGKILL: the owner's own cleanup does not run
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("the plane of a killed owner to end", async || {
        let running: Vec<&u32> = ids.iter().filter(|id| runs(**id)).collect();
        let gone = running.is_empty() && !directory.exists();
        gone.then_some(())
            .ok_or_else(|| format!("{running:?}, {}", directory.exists()))
    })
    .await
    .unwrap();
}

/// True if a process exists and is not a zombie.
fn runs(id: u32) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(id.to_string()).join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}
