//! The process is killed at each save of the state, while several steps are under way.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    process::Child,
    sync::atomic::{AtomicUsize, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::stage::{ENGINE, Stage};

const UP: [&str; 7] = [
    "up",
    "--yes",
    "--skip-preview",
    "--parallel",
    "4",
    "--stack",
    "dev",
];

const CANCEL: [&str; 4] = ["cancel", "--yes", "--stack", "dev"];

/// Twenty resources in chains of five.
fn program() -> String {
    let mut text = "name: demo\nruntime: yaml\nresources:\n".to_owned();
    for chain in 0..4 {
        for link in 0..5 {
            let input = match link {
                0 => "1".to_owned(),
                _ => format!("'${{c{chain}r{}.output}}'", link - 1),
            };
            _ = writeln!(
                text,
                "  c{chain}r{link}: {{type: 'pulumi:index:Stash', properties: {{input: {input}}}}}"
            );
        }
    }
    text.push_str("outputs: {last: '${c3r4.output}'}\n");
    text
}

/// A stage whose stack is there and empty.
fn ready() -> Stage {
    let stage = Stage::with(ENGINE);
    stage.write("Pulumi.yaml", &program());
    stage.ensure_stack("dev");
    stage
}

fn state(stage: &Stage) -> PathBuf {
    stage.path("state/.pulumi/stacks/demo/dev.json")
}

/// Each save is a file of its own that takes the place of the one before.
fn version(stage: &Stage) -> Option<(u64, i64)> {
    let metadata = fs::metadata(state(stage)).ok()?;
    Some((metadata.ino(), metadata.mtime_nsec()))
}

fn start(stage: &Stage) -> Child {
    let mut command = stage.command(&UP);
    command.env("PKO_ENGINE_STEP_DELAY", "30ms");
    command.spawn().unwrap()
}

/// Waits for so many saves; false if the run ended before.
fn saved(stage: &Stage, child: &mut Child, count: usize) -> bool {
    let deadline = Instant::now() + Duration::from_mins(2);
    let mut last = version(stage);
    let mut seen = 0;
    while seen < count {
        assert!(
            Instant::now() < deadline,
            "waited too long for save {count}"
        );
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        let now = version(stage);
        if now.is_some() && now != last {
            (last, seen) = (now, seen + 1);
        }
        sleep(Duration::from_micros(200));
    }
    true
}

/// Resources of the state by URN, each once; and the number of its pending operations.
fn found(stage: &Stage) -> (BTreeSet<String>, usize) {
    let content = fs::read(state(stage)).unwrap();
    let checkpoint: Value = serde_json::from_slice(&content).unwrap();
    let latest = &checkpoint["checkpoint"]["latest"];
    let list = |key: &str| latest[key].as_array().cloned().unwrap_or_default();
    let resources = list("resources");
    let urn = |resource: &Value| resource["urn"].as_str().unwrap().to_owned();
    let urns: BTreeSet<_> = resources.iter().map(urn).collect();
    assert_eq!(urns.len(), resources.len(), "one is there twice");
    (urns, list("pending_operations").len())
}

#[test]
fn engine_killed_at_any_save_can_be_rerun() {
    let whole = ready();
    whole.ok(&UP);
    let (wanted, pending) = found(&whole);
    assert_eq!((wanted.len(), pending), (22, 0));
    let next = AtomicUsize::new(1);
    let killed = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while kill_at(next.fetch_add(1, Ordering::SeqCst), &wanted) {
                    killed.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    let killed = killed.into_inner();
    // of each chain at least the beginnings of its steps are saved
    assert!(killed > 5, "only {killed} saves were seen");
    println!("killed at {killed} saves");
}

/// Kills a run at a save and runs it again; false if there are not so many saves.
fn kill_at(save: usize, wanted: &BTreeSet<String>) -> bool {
    let stage = ready();
    let mut child = start(&stage);
    if !saved(&stage, &mut child, save) {
        child.wait().unwrap();
        return false;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let (left, pending) = found(&stage);
    assert!(left.is_subset(wanted), "save {save}: {left:?}");
    assert!(pending <= 4, "save {save}: {pending} operations under way");
    // a killed process cannot release the lock
    stage.ok(&CANCEL);
    stage.ok(&UP);
    assert_eq!(found(&stage), (wanted.clone(), 0), "save {save}");
    let output = ["stack", "output", "--json", "--stack", "dev"];
    assert_eq!(stage.json(&output), json!({"last": 1}), "save {save}");
    true
}

#[test]
fn concurrent_update_is_rejected() {
    let stage = ready();
    let start = || {
        let mut command = stage.command(&UP);
        command.env("PKO_ENGINE_STEP_DELAY", "5s");
        command.spawn().unwrap()
    };
    let mut children = [start(), start()];
    let deadline = Instant::now() + Duration::from_mins(1);
    let refused = loop {
        let ended = |child: &mut Child| child.try_wait().unwrap().is_some();
        if let Some(position) = children.iter_mut().position(ended) {
            break position;
        }
        assert!(Instant::now() < deadline, "neither was refused");
        sleep(Duration::from_millis(20));
    };
    let [first, second] = children;
    let (refused, mut other) = match refused {
        0 => (first, second),
        _ => (second, first),
    };
    let refused = refused.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(told.contains("the stack is currently locked by"), "{told}");
    // the other may have looked at the wrong moment and be refused as well, but never both go on
    if other.try_wait().unwrap().is_none() {
        other.kill().unwrap();
        other.wait().unwrap();
        stage.ok(&CANCEL);
    }
    stage.ok(&UP);
    assert_eq!(found(&stage).0.len(), 22);
}
