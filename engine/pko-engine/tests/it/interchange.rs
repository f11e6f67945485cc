//! One stack, two command lines: the engine and Pulumi's own CLI continue each other's work.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::stage::{ENGINE, Stage, judge_all, real_cli};

const FIRST: &str = r#"name: demo
runtime: yaml
config: {size: {type: integer, default: 3}}
resources:
  base: {type: pulumi:index:Stash, properties: {input: {size: "${size}", list: [1, null, {deep: true}]}}, options: {protect: true}}
  child: {type: pulumi:index:Stash, properties: {input: "${token}"}, options: {parent: "${base}", dependsOn: ["${other}"]}}
  other: {type: pulumi:index:Stash, properties: {input: one}, options: {replacementTrigger: {a: 1}, customTimeouts: {create: 90s}}}
  last: {type: pulumi:index:Stash, properties: {input: "${child.output}"}, options: {additionalSecretOutputs: [output], deletedWith: "${base}"}}
outputs: {size: "${base.output.size}", token: "${child.output}", plain: "${other.output}", map: {a: [1.5, x]}}
"#;
/// With a rename, a change, a replacement, something new and something gone.
const SECOND: &str = r#"name: demo
runtime: yaml
config: {size: {type: integer, default: 3}}
resources:
  base: {type: pulumi:index:Stash, properties: {input: {size: 4, list: []}}}
  renamed: {type: pulumi:index:Stash, properties: {input: "${token}"}, options: {parent: "${base}", aliases: [{name: child}]}}
  other: {type: pulumi:index:Stash, properties: {input: two}, options: {replaceOnChanges: [input]}}
  new: {type: pulumi:index:Stash, properties: {input: "${renamed.output}"}}
outputs: {token: "${renamed.output}", other: "${other.output}"}
"#;

#[test]
fn cli_continues_state_of_engine() {
    exchange(ENGINE, real_cli());
}

#[test]
fn engine_continues_state_of_cli() {
    exchange(real_cli(), ENGINE);
}

/// One makes a stack, the other looks at it, changes it and hands it back.
fn exchange(one: &str, other: &str) {
    let mut stage = Stage::with(one);
    stage.write("Pulumi.yaml", FIRST);
    stage.ok(&["stack", "init", "dev"]);
    stage.ok(&[
        "config", "set", "--secret", "token", "hush", "--stack", "dev",
    ]);
    up(&stage);
    let made = look(&stage);
    assert_eq!(made.outputs["token"], json!("hush"));

    stage.hand_to(other);
    assert_eq!(look(&stage), made, "the other sees the same");
    stage.ok(&["preview", "--expect-no-changes", "--stack", "dev"]);
    let refresh = ["refresh", "--yes", "--skip-preview", "--stack", "dev"];
    stage.ok(&[&refresh[..], &["--expect-no-changes"]].concat());
    assert_eq!(
        look(&stage).outputs,
        made.outputs,
        "a refresh changes nothing"
    );
    stage.write("Pulumi.yaml", SECOND);
    up(&stage);
    let changed = look(&stage);
    assert_eq!(changed.outputs, json!({"token": "hush", "other": "two"}));
    assert!(
        resources(&stage)
            .iter()
            .all(|each| each["delete"] != json!(true))
    );

    stage.hand_to(one);
    assert_eq!(look(&stage), changed, "and back");
    stage.ok(&["preview", "--expect-no-changes", "--stack", "dev"]);
    assert_eq!(history(&stage, 10).len(), 3);
    assert!(!files(&stage.path("state/.pulumi/backups")).is_empty());
    leave_pending(&stage);

    stage.hand_to(other);
    let warned = up(&stage);
    assert!(warned.contains("pending operations"), "{warned}");
    stage.ok(&refresh);
    assert!(pending(&stage).is_empty(), "{:?}", pending(&stage));
    stage.ok(&["destroy", "--yes", "--skip-preview", "--stack", "dev"]);

    stage.hand_to(one);
    assert!(resources(&stage).is_empty());
    stage.ok(&["stack", "rm", "--yes", "--stack", "dev"]);
    stage.hand_to(other);
    assert_eq!(stage.json(&["stack", "ls", "--json"]), json!([]));
}

fn up(stage: &Stage) -> String {
    let done = stage.ok(&["up", "--yes", "--skip-preview", "--stack", "dev"]);
    format!("{}{}", done.stdout, done.stderr)
}

/// What a CLI prints of a stack.
#[derive(Debug, PartialEq)]
struct StackSummary {
    stacks: Value,
    outputs: Value,
    hidden: Value,
    resources: Vec<Value>,
    last: Value,
}

fn look(stage: &Stage) -> StackSummary {
    let output = ["stack", "output", "--json", "--stack", "dev"];
    let last = history(stage, 1).remove(0);
    let kept = ["kind", "result", "resourceChanges", "version", "config"];
    let last = kept.map(|key| (key.to_owned(), last[key].clone()));
    let mut stacks = stage.json(&["stack", "ls", "--json"]);
    stacks[0]["lastUpdate"] = json!(null);
    StackSummary {
        stacks,
        outputs: stage.json(&[&output[..], &["--show-secrets"]].concat()),
        hidden: stage.json(&output),
        resources: resources(stage),
        last: Value::Object(last.into_iter().collect()),
    }
}

fn history(stage: &Stage, size: usize) -> Vec<Value> {
    let size = size.to_string();
    let words = [
        "stack",
        "history",
        "--json",
        "--show-secrets",
        "--stack",
        "dev",
        "--page-size",
        &size,
        "--page",
        "1",
    ];
    serde_json::from_value(stage.json(&words)).unwrap()
}

fn export(stage: &Stage) -> Value {
    stage.json(&["stack", "export", "--show-secrets", "--stack", "dev"])["deployment"].take()
}

/// Resources but for where in a program they come from, which only the real CLI's host notes.
fn resources(stage: &Stage) -> Vec<Value> {
    let mut found = export(stage)["resources"].take();
    for resource in found.as_array_mut().into_iter().flatten() {
        for key in ["sourcePosition", "stackTrace"] {
            resource.as_object_mut().unwrap().remove(key);
        }
    }
    serde_json::from_value(found).unwrap_or_default()
}

fn pending(stage: &Stage) -> Vec<Value> {
    serde_json::from_value(export(stage)["pending_operations"].take()).unwrap_or_default()
}

fn state_file(stage: &Stage) -> PathBuf {
    stage.path("state/.pulumi/stacks/demo/dev.json")
}

/// Leaves a state as a run does that was killed in the midst of an update.
fn leave_pending(stage: &Stage) {
    let path = state_file(stage);
    let mut file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let latest = &mut file["checkpoint"]["latest"];
    let resources = latest["resources"].as_array().unwrap();
    let new = resources
        .iter()
        .find(|each| each["urn"].as_str().unwrap().ends_with("::new"));
    latest["pending_operations"] = json!([{"type": "updating", "resource": new.unwrap()}]);
    fs::write(path, file.to_string()).unwrap();
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The engine and the CLI continue with states that the CLI 3.259.0 wrote. `tests/states` has one
/// of each kind, and the config that belongs to it in the same folder.
#[test]
fn recorded_states_continue_under_both() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/states");
    let is_state = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
    let states: Vec<_> = files(&folder).into_iter().filter(is_state).collect();
    assert!(states.len() >= 6, "{} states", states.len());
    judge_all(&states, continue_state);
}

fn continue_state(recorded: &Path) -> Vec<String> {
    let config = fs::read_to_string(recorded.with_file_name("Pulumi.dev.yaml")).unwrap();
    let mut problems = Vec::new();
    let mut differ = |what: &str, got: String, want: String| {
        if got != want {
            let name = recorded.display();
            problems.push(format!("{name}: {what}: got {got}, want {want}"));
        }
    };
    let mut stage = Stage::new(SECOND);
    stage.write("Pulumi.dev.yaml", &config);
    let place = state_file(&stage);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::copy(recorded, &place).unwrap();
    fs::write(stage.path("state/.pulumi/meta.yaml"), "version: 1\n").unwrap();

    let before = resources(&stage);
    stage.hand_to(real_cli());
    let of_cli = resources(&stage);
    differ("resources", format!("{before:?}"), format!("{of_cli:?}"));
    stage.hand_to(ENGINE);
    // what a recorded program protects is replaced or deleted here
    let document: Value = serde_json::from_slice(&fs::read(&place).unwrap()).unwrap();
    fs::write(&place, unprotected(document).to_string()).unwrap();
    stage.ok(&[
        "config", "set", "--secret", "token", "hush", "--stack", "dev",
    ]);
    up(&stage);
    let of_engine = look(&stage);
    differ(
        "token",
        of_engine.outputs["token"].to_string(),
        json!("hush").to_string(),
    );
    stage.hand_to(real_cli());
    let of_cli = look(&stage);
    differ("after", format!("{of_cli:?}"), format!("{of_engine:?}"));
    stage.ok(&["preview", "--expect-no-changes", "--stack", "dev"]);
    problems
}

fn unprotected(mut document: Value) -> Value {
    let resources = document.pointer_mut("/checkpoint/latest/resources");
    let resources = resources.and_then(Value::as_array_mut);
    for resource in resources.into_iter().flatten() {
        resource.as_object_mut().unwrap().remove("protect");
    }
    document
}
