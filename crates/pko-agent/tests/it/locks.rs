//! Locks that a dead run has left behind, and those of others.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use jiff::{SignedDuration, Timestamp};
use pko_proto::{
    convert::to_proto_timestamp,
    run::{ErrorClass, LostRun, RunResult, RunState, StartRunRequest, run_event},
};
use pko_testkit::{Reply, Script};
use rustix::process::{Signal, kill_process_group};
use serde_json::{Value, json};

use crate::harness::{
    Agent, CliKind, TestWorkspace, children, get, on_each_cli, update, wait_for_result, wait_until,
    watch, within_deadline,
};

on_each_cli!(engine and real:
    lock_of_killed_run_is_removed_by_next_agent
    foreign_lock_keeps_own_lock
    foreign_lock_is_kept_with_advice
    lock_of_lost_run_is_removed
    lock_of_living_process_is_kept
);

const PROGRAM: &str = "\
name: simple
runtime: yaml
resources:
  first:
    type: pulumi:index:Stash
    properties:
      input: x
outputs:
  first: ${first.input}
";
const REMOVED: &str = "removed the lock that run one had left behind";

fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    name.trim().to_owned()
}

/// The number of a process that has ended.
fn dead_process() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

fn locks_folder(place: &TestWorkspace) -> PathBuf {
    place.path("state/.pulumi/locks/organization/simple/dev")
}

/// Their contents; each has a second file with its attributes, which is none.
fn locks(place: &TestWorkspace) -> Vec<String> {
    let files = fs::read_dir(locks_folder(place)).into_iter().flatten();
    let files = files.map(|file| file.unwrap().path());
    files
        .filter(|file| {
            file.extension()
                .is_some_and(|extension| extension == "json")
        })
        .map(|file| fs::read_to_string(file).unwrap())
        .collect()
}

fn write_lock(place: &TestWorkspace, name: &str, host: &str, process: u32, taken: Timestamp) {
    let lock = json!({"pid": process, "username": "pulumi", "hostname": host, "timestamp": taken.to_string()});
    fs::create_dir_all(locks_folder(place)).unwrap();
    let file = locks_folder(place).join(format!("{name}.json"));
    fs::write(file, lock.to_string()).unwrap();
}

/// The resources of the stack, by the CLI.
fn resources(place: &TestWorkspace) -> Vec<String> {
    let state = place.ask(&["stack", "export", "--stack", "dev"]);
    let resources = state["deployment"]["resources"].as_array().unwrap();
    let kind = |resource: &Value| resource["type"].as_str().unwrap().to_owned();
    resources.iter().map(kind).collect()
}

async fn run(agent: &Agent, request: StartRunRequest) -> RunResult {
    let run_id = request.run_id.clone();
    let mut client = agent.runs().await;
    client.start_run(request).await.unwrap();
    within_deadline("the end of a run", wait_for_result(&mut client, &run_id)).await
}

/// With the real CLI: the language host waits at `gate`, a pipe to which nothing is written.
const BLOCKED_PROGRAM: &str = "\
name: simple
runtime: yaml
resources:
  first:
    type: pulumi:index:Stash
    properties:
      input: x
  second:
    type: pulumi:index:Stash
    properties:
      input: {fn::join: ['', ['${first.output}', {fn::readFile: ./gate}]]}
";

/// Whether the update has come to where it is blocked, and has written what it has done so far. A
/// CLI that is killed while it writes a checkpoint may leave one that it cannot read.
fn is_blocked(cli: CliKind, place: &TestWorkspace) -> bool {
    let file = place.path("state/.pulumi/stacks/simple/dev.json");
    let written = fs::read_to_string(file).unwrap_or_default();
    match cli {
        CliKind::Real => written.contains("::first\"") && !written.contains("pending_operations"),
        _ => !locks(place).is_empty(),
    }
}

/// An `up` under the id `one` is killed in the middle, with its agent and all that it has started,
/// as the end of a pod does.
async fn killed(cli: CliKind, slow: &TestWorkspace) {
    let agent = slow.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    let begun = async {
        loop {
            let event = events.message().await.unwrap().unwrap().event;
            if let Some(run_event::Event::EngineEvent(event)) = event
                && String::from_utf8(event)
                    .unwrap()
                    .contains("resourcePreEvent")
            {
                break;
            }
        }
    };
    within_deadline("a step of the run", begun).await;
    wait_until("the update is blocked", || is_blocked(cli, slow)).await;
    let [process] = children(agent.process())[..] else {
        panic!("one CLI")
    };
    let plugins = children(process);
    agent.kill().await;
    for group in [process].into_iter().chain(plugins) {
        // A plugin may be of the CLI's group, and gone with it.
        let _gone = kill_process_group(group, Signal::KILL);
    }
    assert_eq!(locks(slow).len(), 1, "it was left behind");
}

/// A place where an `up` was killed, with a CLI and a program that are not blocked any more.
async fn after_a_kill(cli: CliKind) -> TestWorkspace {
    let place = match cli {
        CliKind::Real => TestWorkspace::with(cli, BLOCKED_PROGRAM),
        _ => TestWorkspace::with(cli, PROGRAM).variable("PKO_ENGINE_STEP_DELAY", "10m"),
    };
    make_pipe(&place.workspace().join("gate"));
    killed(cli, &place).await;
    place.write("Pulumi.yaml", PROGRAM);
    place.without_variable("PKO_ENGINE_STEP_DELAY")
}

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

async fn lock_of_killed_run_is_removed_by_next_agent(cli: CliKind) {
    let place = after_a_kill(cli).await;
    let agent = place.serve(&[]).await;
    let result = run(&agent, update("two")).await;
    assert!(result.error.is_none(), "{:?} {}", result.error, agent.log());
    assert_eq!(result.notes, [REMOVED]);
    assert_eq!(result.outputs["first"].value, b"\"x\"");
    assert!(agent.log().contains(REMOVED), "{}", agent.log());
    assert_eq!(locks(&place), Vec::<String>::new());
    assert_eq!(
        resources(&place),
        [
            "pulumi:pulumi:Stack",
            "pulumi:providers:pulumi",
            "pulumi:index:Stash"
        ],
        "each is there once"
    );
    let mut client = agent.runs().await;
    assert_eq!(get(&mut client, "one").await.state(), RunState::Interrupted);

    let result = run(&agent, update("three")).await;
    assert!(result.error.is_none() && result.notes.is_empty());
}

async fn foreign_lock_keeps_own_lock(cli: CliKind) {
    let place = after_a_kill(cli).await;
    write_lock(&place, "foreign", "laptop", 4242, Timestamp::now());
    let agent = place.serve(&[]).await;
    let result = run(&agent, update("two")).await;
    let error = result.error.unwrap();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert_eq!(error.info.unwrap().reason, "UpdateConflict");
    assert!(
        error.message.contains("locked by 2 lock(s)"),
        "{}",
        error.message
    );
    assert_eq!(locks(&place).len(), 2, "nothing was removed");
    assert!(result.notes.is_empty());
}

/// What is said of a lock that stays.
async fn foreign_lock_is_kept_with_advice(cli: CliKind) {
    let place = TestWorkspace::with_stack(cli, PROGRAM);
    let taken = Timestamp::now() - SignedDuration::from_mins(125);
    write_lock(&place, "foreign", "laptop", 4242, taken);
    let agent = place.serve(&[]).await;
    // The manager lost a run at that time, but not on that host.
    let result = run(&agent, lost_since("one", taken)).await;
    let error = result.error.unwrap();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert!(
        error
            .message
            .starts_with("up failed: failed to run update: exit status 1\ncode: 1\n"),
        "{}",
        error.message
    );
    let hint = format!(
        "the stack is locked by pulumi@laptop (pid 4242) since {taken:.0} (2h 5m ago); the lock was not removed because \
         it was taken on another host. If nothing updates the stack, remove it: `"
    );
    let advice = error.advice();
    assert!(advice.starts_with(&hint), "{advice}");
    assert!(advice.contains("cancel --cwd "), "{advice}");
    assert!(advice.contains(" --stack dev --yes`"), "{advice}");
    assert!(error.message.ends_with(&format!("hint: {advice}\n")));
    assert_eq!(locks(&place).len(), 1);
}

/// A run of stack `dev`, before which one was lost that had begun a minute before this.
fn lost_since(run_id: &str, time: Timestamp) -> StartRunRequest {
    let minute = SignedDuration::from_mins(1);
    let lost = LostRun {
        run_id: "gone".to_owned(),
        begun_at: Some(to_proto_timestamp(time - minute)),
        lost_at: Some(to_proto_timestamp(time + minute)),
    };
    StartRunRequest {
        lost_runs: vec![lost],
        ..update(run_id)
    }
}

/// The pod was replaced, and its journal with it: only the manager has a record of the run.
async fn lock_of_lost_run_is_removed(cli: CliKind) {
    let place = TestWorkspace::with_stack(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let taken = Timestamp::now() - SignedDuration::from_hours(1);
    write_lock(&place, "left", &host(), dead_process(), taken);

    let result = run(&agent, update("no-word")).await;
    let error = result.error.unwrap();
    assert!(
        error
            .advice()
            .contains("it belongs to no known run of this workspace")
    );
    let other_time = taken - SignedDuration::from_mins(10);
    let result = run(&agent, lost_since("other-time", other_time)).await;
    assert_eq!(result.error.unwrap().class(), ErrorClass::Conflict);
    assert_eq!(locks(&place).len(), 1);

    let result = run(&agent, lost_since("then", taken)).await;
    assert!(result.error.is_none(), "{:?}", result.error);
    assert_eq!(
        result.notes,
        ["removed the lock that run gone had left behind"]
    );
    assert_eq!(locks(&place), Vec::<String>::new());
}

async fn lock_of_living_process_is_kept(cli: CliKind) {
    let place = TestWorkspace::with_stack(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let taken = Timestamp::now();
    write_lock(&place, "held", &host(), std::process::id(), taken);
    let result = run(&agent, lost_since("one", taken)).await;
    let error = result.error.unwrap();
    assert!(
        error.advice().contains("its process is still running"),
        "{error:?}"
    );
    assert_eq!(locks(&place).len(), 1);
}

/// The complaint of a CLI about a lock of this host.
fn complaint(process: u32, taken: Timestamp) -> String {
    let host = host();
    format!(
        "error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete the \
         lock file with `pulumi cancel`.\n  file:///x.json: created by pulumi@{host} (pid {process}) at {taken:.0}\n"
    )
}

/// `pulumi` alone is killed, as the kernel does when memory is short; its agent notices.
#[tokio::test]
async fn lock_of_killed_cli_is_removed() {
    let place = TestWorkspace::new(&Reply::new().floods(1, 0).waits_for("never"));
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let mut events = watch(&mut client, "one", 0).await;
    within_deadline("the run", events.message())
        .await
        .unwrap()
        .unwrap();
    let [cli] = children(agent.process())[..] else {
        panic!("one CLI")
    };
    // while it runs: a lock that is taken later is none of its own
    let taken = Timestamp::now();
    kill_process_group(cli, Signal::KILL).unwrap();
    let result = within_deadline("its end", wait_for_result(&mut client, "one")).await;
    assert!(result.error.unwrap().message.contains("signal: killed"));

    let process = u32::try_from(cli.as_raw_nonzero().get()).unwrap();
    let locked = Reply::new()
        .prints_error(&complaint(process, taken))
        .exits(1);
    place
        .stand_in
        .set_script(&Script::new().on_call("up", 1, locked));
    let result = run(&agent, update("two")).await;
    assert!(result.error.is_none(), "{:?}", result.error);
    assert_eq!(result.notes, [REMOVED]);
    let calls = place.calls();
    assert_eq!(
        calls[calls.len() - 3..],
        ["up --yes", "cancel --yes", "up --yes"],
        "{calls:?}"
    );
    assert!(
        place.lines().contains("cancel --yes --stack dev\n"),
        "{}",
        place.lines()
    );
}

/// It is tried once: a run that has the stack by then keeps it.
#[tokio::test]
async fn lock_taken_again_is_kept() {
    let place = TestWorkspace::scripted(&Script::new());
    let agent = place.serve(&[]).await;
    let taken = Timestamp::now();
    let locked = Reply::new()
        .prints_error(&complaint(dead_process(), taken))
        .exits(1);
    place.stand_in.set_script(&TestWorkspace::script(&locked));
    let result = run(&agent, lost_since("one", taken)).await;
    assert_eq!(result.error.unwrap().class(), ErrorClass::Conflict);
    assert_eq!((place.count("up"), place.count("cancel")), (2, 1));
}

#[tokio::test]
async fn unremovable_lock_is_reported() {
    let taken = Timestamp::now();
    let locked = Reply::new()
        .prints_error(&complaint(dead_process(), taken))
        .exits(1);
    let refused = Reply::new().prints_error("error: no\n").exits(1);
    let place = TestWorkspace::scripted(&TestWorkspace::script(&locked).on("cancel", refused));
    let agent = place.serve(&[]).await;
    let result = run(&agent, lost_since("one", taken)).await;
    let error = result.error.unwrap();
    assert_eq!(error.class(), ErrorClass::Conflict);
    assert!(
        error
            .advice()
            .contains("run gone left it behind, but removing it failed")
    );
    assert_eq!((place.count("up"), place.count("cancel")), (1, 1));
    assert!(result.notes.is_empty());
}

/// Pulumi Cloud itself records the holder.
#[tokio::test]
async fn cloud_conflict_is_never_cancelled() {
    let conflict = "error: [409] Conflict: Another update is currently in progress.\n";
    let place = TestWorkspace::new(&Reply::new().prints_error(conflict).exits(255));
    let agent = place.serve(&[]).await;
    let result = run(&agent, lost_since("one", Timestamp::now())).await;
    let error = result.error.unwrap();
    assert_eq!(
        (error.class(), error.advice.as_deref()),
        (ErrorClass::Conflict, None)
    );
    assert_eq!((place.count("up"), place.count("cancel")), (1, 0));
}
