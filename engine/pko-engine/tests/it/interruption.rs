//! Signals, locks and crashes.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::stage::{Done, Stage};

const PROGRAM: &str = "name: demo\nruntime: yaml\nresources:\n  a: {type: 'pulumi:index:Stash', properties: {input: 1}}\n  b: {type: 'pulumi:index:Stash', properties: {input: '${a.output}'}}\n";

fn wait_for(what: &str, mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !reached() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn interrupted_run_finishes_step_and_unlocks() {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    let log = stage.path("events.jsonl");
    let mut command = stage.command(&[
        "up",
        "--yes",
        "--skip-preview",
        "--diff",
        "--stack",
        "dev",
        "--event-log",
        log.to_str().unwrap(),
    ]);
    command.env("PKO_ENGINE_STEP_DELAY", "60s");
    let child = command.spawn().unwrap();
    wait_for("the first step", || {
        stage
            .events()
            .iter()
            .any(|event| event.get("resourcePreEvent").is_some())
    });

    let locked = stage.run(&["up", "--yes", "--skip-preview", "--stack", "dev"]);
    assert_eq!(locked.code, Some(1));
    assert!(
        locked
            .stderr
            .contains("the stack is currently locked by 1 lock(s)"),
        "{locked:?}"
    );

    let id = child.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let done = Done::from(child.wait_with_output().unwrap());
    assert_eq!(done.code, Some(8), "{done:?}");
    assert!(
        done.stderr.ends_with("error: update canceled\n"),
        "{done:?}"
    );
    assert_eq!(
        stage.json(&["stack", "ls", "--json"])[0]["resourceCount"],
        json!(1)
    );
    let last = stage.events();
    assert_eq!(
        last[last.len() - 2]["summaryEvent"]["result"],
        json!("canceled")
    );

    assert_eq!(stage.up().code, Some(0));
    assert_eq!(
        stage.json(&["stack", "ls", "--json"])[0]["resourceCount"],
        json!(4)
    );
}

#[test]
fn cancel_removes_stale_lock() {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    let locks = stage.path("state/.pulumi/locks/organization/demo/dev");
    std::fs::create_dir_all(&locks).unwrap();
    let lock = r#"{"pid":4242,"username":"pulumi","hostname":"demo-workspace-0","timestamp":"2026-01-02T03:04:05Z"}"#;
    std::fs::write(
        locks.join("8a8b7f3e-0000-4000-8000-000000000001.json"),
        lock,
    )
    .unwrap();
    let held = stage.up();
    assert!(
        held.stderr
            .contains("created by pulumi@demo-workspace-0 (pid 4242) at 2026-01-02T03:04:05Z"),
        "{held:?}"
    );
    let canceled = stage.ok(&["cancel", "--yes", "--stack", "dev"]);
    assert_eq!(
        canceled.stdout,
        "The currently running update for 'dev' has been canceled!\n"
    );
    assert_eq!(stage.up().code, Some(0));
    assert_eq!(std::fs::read_dir(&locks).unwrap().count(), 0);
}

#[test]
fn wrong_passphrase_writes_nothing() {
    let stage = Stage::new(PROGRAM);
    stage.ok(&["stack", "init", "dev"]);
    let before = stage.json(&["stack", "export"]);
    let mut command = stage.command(&["up", "--yes", "--skip-preview", "--stack", "dev"]);
    command.env("PULUMI_CONFIG_PASSPHRASE", "wrong");
    let done = crate::stage::finish(command);
    assert_eq!(
        done.stderr,
        "error: getting stack configuration: get stack secrets manager: incorrect passphrase\n"
    );
    assert_eq!(stage.json(&["stack", "export"]), before);
}
