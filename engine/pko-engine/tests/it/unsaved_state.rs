//! A backend that takes no state any more.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::stage::{Done, Stage};

/// A chain, so that some of it is never begun, beside one with a secret.
const PROGRAM: &str = "name: demo\nruntime: yaml\nresources:\n  hidden: {type: 'pulumi:index:Stash', properties: {input: {fn::secret: hush-hush}}}\n  a: {type: 'pulumi:index:Stash', properties: {input: 1}}\n  b: {type: 'pulumi:index:Stash', properties: {input: '${a.output}'}}\noutputs: {hidden: '${hidden.output}'}\n";

const UP: [&str; 5] = ["up", "--yes", "--skip-preview", "--stack", "dev"];

fn pending(stage: &Stage) -> usize {
    let content = fs::read(stage.state_file("dev")).unwrap_or_default();
    let document: Value = serde_json::from_slice(&content).unwrap_or_default();
    let pending = &document["checkpoint"]["latest"]["pending_operations"];
    pending.as_array().map_or(0, Vec::len)
}

/// A run whose state could not be saved, and the command that its error names.
fn with_unsaved_state() -> (Stage, Vec<String>) {
    let stage = Stage::new(PROGRAM);
    stage.ensure_stack("dev");
    let mut command = stage.command(&UP);
    command.env("PKO_ENGINE_STEP_DELAY", "2s");
    let child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    while pending(&stage) < 2 {
        assert!(Instant::now() < deadline, "waited too long for two steps");
        sleep(Duration::from_millis(10));
    }
    // A file in place of the folder of the states: no save succeeds.
    let states = stage.path("state/.pulumi/stacks/demo");
    let aside = stage.path("states");
    fs::rename(&states, &aside).unwrap();
    fs::write(&states, "").unwrap();
    let done = Done::from(child.wait_with_output().unwrap());
    assert_ne!(done.code, Some(0), "{done:?}");
    fs::remove_file(&states).unwrap();
    fs::rename(&aside, &states).unwrap();
    let command = done.stderr.split_once("`pulumi ").unwrap().1;
    let command = command.split_once('`').unwrap().0;
    (stage, command.split(' ').map(str::to_owned).collect())
}

/// The names of the resources, of which `b` was never begun.
fn check_recovered(stage: &Stage) {
    let resources = stage.deployment("dev")["resources"].clone();
    let names: Vec<_> = resources
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| {
            resource["urn"]
                .as_str()
                .unwrap()
                .rsplit("::")
                .next()
                .unwrap()
        })
        .collect();
    assert!(
        names.contains(&"hidden") && names.contains(&"a"),
        "{names:?}"
    );
    assert!(!names.contains(&"b"), "no step begins after a failed save");
}

#[test]
fn unsaved_state_is_in_a_file_that_can_be_imported() {
    let (stage, command) = with_unsaved_state();
    let file = command.last().unwrap();
    let mode = fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!fs::read_to_string(file).unwrap().contains("hush-hush"));
    let words: Vec<_> = command.iter().map(String::as_str).collect();
    stage.ok(&words);
    assert!(!fs::exists(file).unwrap());
    check_recovered(&stage);
    let again = stage.ok(&UP);
    assert!(!again.stderr.contains("saved now"), "{again:?}");
    assert_eq!(stage.outputs("dev").0["hidden"], "hush-hush");
}

#[test]
fn unsaved_state_is_saved_by_the_next_run() {
    let (stage, command) = with_unsaved_state();
    let refresh = ["refresh", "--yes", "--skip-preview", "--stack", "dev"];
    let done = stage.ok(&refresh);
    assert!(done.stderr.contains("it is saved now"), "{done:?}");
    assert!(!fs::exists(command.last().unwrap()).unwrap());
    check_recovered(&stage);
    stage.ok(&UP);
    assert_eq!(stage.outputs("dev").0["hidden"], "hush-hush");
}

#[test]
fn unsaved_state_is_not_saved_over_another_change() {
    let (stage, command) = with_unsaved_state();
    let file = stage.state_file("dev");
    let before = fs::read_to_string(&file).unwrap() + "\n";
    fs::write(&file, &before).unwrap();
    let refused = stage.run(&UP);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains(command.last().unwrap()),
        "{refused:?}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    fs::remove_file(command.last().unwrap()).unwrap();
    stage.ok(&UP);
}
