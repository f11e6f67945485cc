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

#[test]
fn unsaved_state_is_in_a_file_that_can_be_imported() {
    let stage = Stage::new(PROGRAM);
    stage.ensure_stack("dev");
    let mut command = stage.command(&UP);
    command
        .env("PKO_ENGINE_STEP_DELAY", "2s")
        .env("TMPDIR", stage.path("home"));
    let child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    while pending(&stage) < 2 {
        assert!(Instant::now() < deadline, "waited too long for two steps");
        sleep(Duration::from_millis(10));
    }
    // The folder of the states is a file: no save succeeds.
    let states = stage.path("state/.pulumi/stacks/demo");
    let aside = stage.path("states");
    fs::rename(&states, &aside).unwrap();
    fs::write(&states, "").unwrap();
    let done = Done::from(child.wait_with_output().unwrap());
    assert_ne!(done.code, Some(0), "{done:?}");
    let command = done.stderr.split_once("`pulumi ").unwrap().1;
    let command = command.split_once('`').unwrap().0;
    let file = command.rsplit_once(' ').unwrap().1;
    let mode = fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!fs::read_to_string(file).unwrap().contains("hush-hush"));

    fs::remove_file(&states).unwrap();
    fs::rename(&aside, &states).unwrap();
    stage.ok(&["cancel", "--yes", "--stack", "dev"]);
    let words: Vec<_> = command.split(' ').collect();
    stage.ok(&words);
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
    let again = stage.ok(&UP);
    assert!(!again.stdout.contains("warning"), "{again:?}");
    let outputs = stage.outputs("dev").0;
    assert_eq!(outputs["hidden"], "hush-hush");
}
