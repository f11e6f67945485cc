//! What YAML programs did under Pulumi's own CLI 3.259.0, held against the engine and against that
//! CLI.
//!
//! In a folder of `tests/conformance`, `case.yaml` has the steps and `expected.json` what the CLI
//! made of each: exit code, outputs with and without secrets, changes, steps and the resources in
//! the state.

use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use pulumi_yaml::syntax;
use serde_json::{Map, Value, json};

use crate::stage::{ENGINE, Stage, finish, judge_all, real_cli};

const SECRET: &str = "4dabf18193072939515e22adb298388d";
const KEEP: [&str; 15] = [
    "urn",
    "type",
    "custom",
    "parent",
    "protect",
    "retainOnDelete",
    "external",
    "delete",
    "inputs",
    "outputs",
    "dependencies",
    "propertyDependencies",
    "additionalSecretOutputs",
    "aliases",
    "deletedWith",
];

#[test]
fn engine_matches_recorded_cases() {
    run_cases(ENGINE, &cases());
}

#[test]
fn real_cli_matches_recorded_cases() {
    // They were recorded from it: a third that changes from day to day keeps them true, `PKO_FULL`
    // takes all
    let day = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
        / 86_400;
    let is_wanted =
        |number: usize| env::var_os("PKO_FULL").is_some() || number as u64 % 3 == day % 3;
    let cases = cases().into_iter().enumerate();
    let wanted = cases.filter(|(number, _)| is_wanted(*number));
    let wanted: Vec<_> = wanted.map(|(_, folder)| folder).collect();
    run_cases(real_cli(), &wanted);
}

fn run_cases(cli: &str, folders: &[PathBuf]) {
    judge_all(folders, |folder| judge(cli, folder));
}

/// The folders of all recorded cases.
fn cases() -> Vec<PathBuf> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let mut folders: Vec<_> = fs::read_dir(&cases)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    folders.sort();
    assert!(folders.len() >= 37, "{} cases", folders.len());
    folders
}

fn judge(cli: &str, folder: &Path) -> Vec<String> {
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let case = syntax::parse(&fs::read_to_string(folder.join("case.yaml")).unwrap())
        .unwrap()
        .to_json();
    let expected: Value =
        serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let stage = Stage::with(cli);
    let steps = case["steps"]
        .as_array()
        .unwrap()
        .iter()
        .zip(expected.as_array().unwrap());
    let mut problems = Vec::new();
    for (number, (step, expected)) in steps.enumerate() {
        let (got, text) = perform(&stage, step);
        for word in step["mentions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            if !text.to_lowercase().contains(&word.to_lowercase()) {
                problems.push(format!(
                    "{name} step {number}: no mention of {word:?} in {text}"
                ));
            }
        }
        for (key, want) in expected.as_object().unwrap() {
            let any_failure = key == "exit"
                && ![json!(0), json!(6), json!(7)].contains(want)
                && got[key] != json!(0);
            if !any_failure && got[key] != *want {
                problems.push(format!(
                    "{name} step {number}: {key}: got {}, want {want}",
                    got[key]
                ));
            }
        }
    }
    problems
}

fn perform(stage: &Stage, step: &Value) -> (Value, String) {
    let stack = step["stack"].as_str().unwrap_or("dev");
    if let Some(program) = step["program"].as_str() {
        stage.write("Pulumi.yaml", program);
    }
    for (name, text) in step["files"].as_object().into_iter().flatten() {
        stage.write(name, text.as_str().unwrap());
    }
    stage.ensure_stack(stack);
    for (key, value) in step["config"].as_object().into_iter().flatten() {
        let mut words = vec!["config", "set", key, "--stack", stack];
        if step["path"] == json!(true) {
            words.push("--path");
        }
        match value["secret"].as_str() {
            Some(secret) => words.extend(["--secret", secret]),
            None => words.extend(["--plaintext", value.as_str().unwrap()]),
        }
        stage.ok(&words);
    }
    let log = stage.path("events.jsonl");
    _ = fs::remove_file(&log);
    let operation = step["op"].as_str().unwrap_or("up");
    let mut words = vec![operation];
    if operation != "preview" {
        words.extend(["--yes", "--skip-preview"]);
    }
    words.extend(["--stack", stack, "--event-log", log.to_str().unwrap()]);
    words.extend(
        step["args"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str),
    );
    let mut command = stage.command(&words);
    for (key, value) in step["env"].as_object().into_iter().flatten() {
        command.env(key, value.as_str().unwrap());
    }
    let done = finish(command);
    (observe(stage, stack, done.code), done.stdout + &done.stderr)
}

fn observe(stage: &Stage, stack: &str, code: Option<i32>) -> Value {
    let events = stage.events();
    let summary = events
        .iter()
        .find_map(|event| event.get("summaryEvent"))
        .cloned()
        .unwrap_or_default();
    let steps: BTreeSet<_> = events
        .iter()
        .filter_map(|event| event.get("resourcePreEvent"))
        .map(|event| {
            (
                event["metadata"]["op"].to_string(),
                event["metadata"]["urn"].to_string(),
            )
        })
        .collect();
    let steps: Vec<Vec<Value>> = steps
        .iter()
        .map(|(operation, urn)| {
            [operation, urn]
                .map(|text| serde_json::from_str(text).unwrap())
                .into()
        })
        .collect();
    let resources = stage.deployment(stack)["resources"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut resources: Vec<_> = resources.iter().map(kept).collect();
    resources.sort_by_key(|resource| resource["urn"].to_string());
    let (outputs, blinded) = stage.outputs(stack);
    json!({
        "exit": code,
        "outputs": outputs,
        "blinded": blinded,
        "changes": summary.get("resourceChanges").cloned().unwrap_or_else(|| json!({})),
        "steps": steps,
        "resources": resources,
    })
}

/// The fields that are compared, where they hold anything; dependencies are sets.
fn kept(resource: &Value) -> Value {
    let empty = |value: &Value| {
        matches!(value, Value::Null | Value::Bool(false))
            || *value == json!([])
            || *value == json!({})
            || *value == json!("")
    };
    let fields = KEEP
        .iter()
        .filter_map(|key| Some((*key, resource.get(key)?)))
        .filter(|(_, value)| !empty(value));
    let mut fields: Map<String, Value> = fields
        .map(|(key, value)| (key.to_owned(), veiled(value)))
        .collect();
    if let Some(Value::Array(urns)) = fields.get_mut("dependencies") {
        urns.sort_by_key(ToString::to_string);
    }
    Value::Object(fields)
}

fn veiled(value: &Value) -> Value {
    match value {
        Value::Object(entries)
            if entries.contains_key(SECRET) && entries.contains_key("ciphertext") =>
        {
            json!("<secret>")
        }
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone(), veiled(value)))
            .collect(),
        Value::Array(values) => values.iter().map(veiled).collect(),
        other => other.clone(),
    }
}
