//! Many runs leave nothing behind.

use std::{fs, path::Path};

use pko_proto::{
    agent::UpRequest,
    run::{AcknowledgeRunRequest, ListRunsRequest},
};
use pko_testkit::{Reply, Script};
use serde_json::json;

use crate::harness::{
    Agent, TestWorkspace, events_and_result, listening_sockets, open_files, update,
    wait_for_result, wait_until, within_deadline, zombies,
};

/// How many ids of acknowledged runs are kept, so that none is executed twice.
const KEPT_IDS: usize = 1000;

/// What there is of an agent besides its memory.
#[derive(Debug)]
struct Footprint {
    zombies: usize,
    open_files: usize,
    listening_sockets: usize,
    temporary_files: usize,
}

impl Footprint {
    fn is_within(&self, other: &Self) -> bool {
        self.zombies <= other.zombies
            && self.open_files <= other.open_files
            && self.listening_sockets <= other.listening_sockets
            && self.temporary_files <= other.temporary_files
    }
}

/// Once nothing of the previous run is left: its end is reported before its last process is gone.
async fn at_rest(place: &TestWorkspace, agent: &Agent) -> Footprint {
    wait_until("nothing is left of a run", || {
        let now = footprint(place, agent);
        (now.zombies, now.temporary_files) == (0, 0)
    })
    .await;
    footprint(place, agent)
}

fn footprint(place: &TestWorkspace, agent: &Agent) -> Footprint {
    let process = agent.process();
    Footprint {
        zombies: zombies(process),
        open_files: open_files(process).len(),
        listening_sockets: listening_sockets(process),
        temporary_files: count_files(&place.path("tmp")),
    }
}

fn count_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap();
    let count = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            1 + count_files(&path)
        } else {
            1
        }
    };
    entries.map(count).sum()
}

/// A few events, and outputs that need no further call.
fn quick() -> Reply {
    let metadata = json!({"type": "pulumi:pulumi:Stack", "new": {"outputs": {"size": 4}}});
    Reply::new()
        .event(json!({"sequence": 0, "resOutputsEvent": {"metadata": metadata}}))
        .event(json!({"sequence": 1, "cancelEvent": {}}))
        .prints("Updating (dev):\n")
}

/// The goal is ten thousand, which `PKO_FULL=1` asks for. A run waits for the disk a dozen times,
/// which is 50 ms on a slow one, so that by default there are only so many as show every leak of
/// one thing for each run; with `TMPDIR` in memory ten thousand take two minutes.
fn how_many() -> usize {
    if std::env::var_os("PKO_FULL").is_some() {
        10_000
    } else {
        300
    }
}

#[tokio::test]
async fn runs_leak_no_process_file_or_port() {
    let place = TestWorkspace::new(&quick());
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let mut before = None;
    for number in 0..how_many() {
        let run_id = format!("run-{number}");
        client.start_run(update(&run_id)).await.unwrap();
        let result = within_deadline("a run", wait_for_result(&mut client, &run_id)).await;
        assert!(result.error.is_none(), "{:?}", result.error);
        assert_eq!(result.outputs["size"].value, b"4");
        let request = AcknowledgeRunRequest { run_id };
        client.acknowledge_run(request).await.unwrap();
        // What is only made once has been made by now.
        if number == 9 {
            before = Some(at_rest(&place, &agent).await);
        }
    }
    let before = before.unwrap();
    wait_until("no more than at the beginning", || {
        footprint(&place, &agent).is_within(&before)
    })
    .await;
    // Each id that is kept is a folder with one file.
    let kept = how_many().min(KEPT_IDS);
    assert_eq!(count_files(&place.path(".pko/runs")), 2 * kept);
    let listed = client.list_runs(ListRunsRequest {}).await.unwrap();
    assert_eq!(listed.into_inner().runs.len(), kept);
    assert_eq!(place.count("up"), how_many());
}

#[tokio::test]
async fn automation_calls_leak_nothing() {
    let place = TestWorkspace::new(&quick());
    let agent = place.serve(&["--stack", "dev"]).await;
    let mut client = agent.automation().await;
    let mut before = None;
    for number in 0..how_many() / 5 {
        let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
        let (events, result) = within_deadline("an update", events_and_result(stream)).await;
        assert_eq!((events.len(), result.is_ok()), (2, true));
        if number == 9 {
            before = Some(at_rest(&place, &agent).await);
        }
    }
    let before = before.unwrap();
    wait_until("no more than at the beginning", || {
        footprint(&place, &agent).is_within(&before)
    })
    .await;
    wait_until("an empty journal", || {
        count_files(&place.path(".pko/runs")) == 0
    })
    .await;
}

/// Whatever way a run ends.
#[tokio::test]
async fn failed_runs_leak_nothing() {
    let endings = [
        Reply::locked(),
        Reply::new().floods(10, 10).dies(9),
        Reply::new().without_events(),
        Reply::new().without_events().exits(1),
        Reply::new().prints_bytes(b"\xff").exits(255),
    ];
    let place = TestWorkspace::scripted(&Script::new());
    let agent = place.serve(&["--stack", "dev"]).await;
    let mut client = agent.automation().await;
    let mut before = None;
    for round in 0..10 {
        for ending in &endings {
            place
                .stand_in
                .set_script(&TestWorkspace::script(&ending.clone()));
            let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
            // How it ends is tried elsewhere.
            let _ = within_deadline("an update", events_and_result(stream)).await;
        }
        if round == 1 {
            before = Some(at_rest(&place, &agent).await);
        }
    }
    let before = before.unwrap();
    wait_until("no more than at the beginning", || {
        footprint(&place, &agent).is_within(&before)
    })
    .await;
    wait_until("an empty journal", || {
        count_files(&place.path(".pko/runs")) == 0
    })
    .await;
}
