//! Our own table of programs: what each does, run by run, on the engine and on Pulumi's own CLI.
//!
//! A folder of `tests/programs` has the program (`Pulumi.yaml`, later ones beside it), whatever
//! files it reads, and `case.yaml`: the runs, and after each what it printed, which steps it took,
//! what the stack gives and what the state holds.

use std::{collections::BTreeMap, fs, path::Path};

use pulumi_yaml::syntax;
use serde_json::{Map, Value, json};

use crate::stage::{Done, ENGINE, Stage, finish, judge_all, real_cli};

/// What a run may say in `case.yaml`; anything else is a mistake in the case.
const FIELDS: [&str; 13] = [
    "args",
    "config",
    "env",
    "exit",
    "mentions",
    "op",
    "outputs",
    "program",
    "races",
    "resources",
    "secret",
    "stack",
    "steps",
];

#[test]
fn programs_do_what_the_table_says() {
    run_table(ENGINE);
}

#[test]
fn programs_do_the_same_under_the_real_cli() {
    run_table(real_cli());
}

fn run_table(cli: &str) {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let only = std::env::var("PKO_PROGRAM").unwrap_or_default();
    let mut folders: Vec<_> = fs::read_dir(&table)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(&only))
        .collect();
    folders.sort();
    assert!(
        folders.len() >= 60 || !only.is_empty(),
        "{} programs",
        folders.len()
    );
    judge_all(&folders, |folder| judge(cli, folder));
}

fn judge(cli: &str, folder: &Path) -> Vec<String> {
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let text = fs::read_to_string(folder.join("case.yaml")).unwrap();
    let case = syntax::parse(&text).unwrap().to_json();
    let stage = Stage::with(cli);
    copy(folder, &stage.path("project"));
    let runs = case["runs"].as_array().unwrap();
    let judged = runs.iter().enumerate().flat_map(|(number, run)| -> Vec<_> {
        let known = |key: &str| FIELDS.contains(&key);
        let unknown = run.as_object().unwrap().keys().find(|key| !known(key));
        assert_eq!(unknown, None, "{name}");
        let problems = judge_run(&stage, folder, run).into_iter();
        problems
            .map(|problem| format!("{name} run {}: {problem}", number + 1))
            .collect()
    });
    judged.collect()
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry
            .map(|entry| (entry.path(), entry.file_name()))
            .unwrap();
        if path.is_dir() {
            fs::create_dir_all(to.join(&name)).unwrap();
            copy(&path, &to.join(name));
        } else if name != "case.yaml" {
            fs::copy(path, to.join(name)).unwrap();
        }
    }
}

fn judge_run(stage: &Stage, folder: &Path, run: &Value) -> Vec<String> {
    let stack = run["stack"].as_str().unwrap_or("dev");
    let done = perform(stage, folder, run, stack);
    let printed = format!("{}{}", done.stdout, done.stderr);
    let mut problems = Vec::new();
    let mut differ = |what: &str, got: &Value, want: &Value| {
        if got != want {
            problems.push(format!("{what}: got {got}, want {want}\n{printed}"));
        }
    };
    let exit = run.get("exit").cloned().unwrap_or_else(|| json!(0));
    // the exact exit code of a failure is checked only where it matters
    let any_failure = exit == json!(1) && done.code.is_some_and(|code| code != 0);
    if !any_failure {
        differ("exit", &json!(done.code), &exit);
    }
    for text in list(&run["mentions"]) {
        let found = printed.to_lowercase().contains(&text.to_lowercase());
        differ(&format!("mentions {text:?}"), &json!(found), &json!(true));
    }
    if let Some(steps) = run.get("steps") {
        differ("steps", &taken(stage), &sorted(steps));
    }
    let secrets = list(&run["secret"]);
    // where the CLI stores outputs or not, as its timing has it, the engine alone is held to one of
    // them
    let is_race = stage.cli() != ENGINE && list(&run["races"]).contains(&"outputs".to_owned());
    if (run.get("outputs").is_some() && !is_race) || !secrets.is_empty() {
        let (open, shown) = stage.outputs(stack);
        differ(
            "outputs",
            &open,
            &run.get("outputs").cloned().unwrap_or_else(|| open.clone()),
        );
        let hidden = |(key, _): &(&String, &Value)| shown[key.as_str()] == json!("[secret]");
        let hidden: Vec<_> = shown.as_object().unwrap().iter().filter(hidden).collect();
        let hidden: Vec<_> = hidden.into_iter().map(|(key, _)| key.clone()).collect();
        differ("secret", &json!(hidden), &sorted(&run["secret"]));
    }
    if let Some(wanted) = run.get("resources") {
        let found = resources(stage, stack);
        for (name, want) in wanted.as_object().unwrap() {
            let got = found.get(name).map(|got| like(got, want));
            differ(
                &format!("resource {name}"),
                &json!(got),
                &if want.is_null() {
                    Value::Null
                } else {
                    want.clone()
                },
            );
        }
    }
    problems
}

fn list(value: &Value) -> Vec<String> {
    let values = value.as_array().into_iter().flatten();
    values
        .map(|value| value.as_str().unwrap().to_owned())
        .collect()
}

fn sorted(value: &Value) -> Value {
    let mut values = list(value);
    values.sort();
    json!(values)
}

fn perform(stage: &Stage, folder: &Path, run: &Value, stack: &str) -> Done {
    if let Some(program) = run["program"].as_str() {
        fs::copy(folder.join(program), stage.path("project/Pulumi.yaml")).unwrap();
    }
    stage.ensure_stack(stack);
    for (key, value) in run["config"].as_object().into_iter().flatten() {
        let mut words = vec!["config", "set", "--path", key, "--stack", stack];
        match value["secret"].as_str() {
            Some(secret) => words.extend(["--secret", secret]),
            None => words.extend(["--plaintext", value.as_str().unwrap()]),
        }
        stage.ok(&words);
    }
    let log = stage.path("events.jsonl");
    _ = fs::remove_file(&log);
    let operation = run["op"].as_str().unwrap_or("up");
    let mut words = vec![
        operation,
        "--stack",
        stack,
        "--event-log",
        log.to_str().unwrap(),
    ];
    if operation != "preview" {
        words.extend(["--yes", "--skip-preview"]);
    }
    let more = list(&run["args"]);
    words.extend(more.iter().map(String::as_str));
    let mut command = stage.command(&words);
    for (key, value) in run["env"].as_object().into_iter().flatten() {
        command.env(key, value.as_str().unwrap());
    }
    finish(command)
}

/// `operation name` of each step, but for those of the stack and of default providers.
fn taken(stage: &Stage) -> Value {
    let mut steps: Vec<_> = stage
        .events()
        .iter()
        .filter_map(|event| event.get("resourcePreEvent"))
        .map(|event| &event["metadata"])
        .filter(|metadata| {
            let kind = metadata["type"].as_str().unwrap();
            kind != "pulumi:pulumi:Stack" && !kind.starts_with("pulumi:providers:")
        })
        .map(|metadata| {
            let operation = metadata["op"].as_str().unwrap();
            format!("{operation} {}", short(metadata["urn"].as_str().unwrap()))
        })
        .collect();
    steps.sort();
    json!(steps)
}

/// The name in a URN.
fn short(urn: &str) -> &str {
    urn.rsplit("::").next().unwrap()
}

/// Resources of the state by name, and those to be deleted under `name (old)`.
fn resources(stage: &Stage, stack: &str) -> BTreeMap<String, Value> {
    let resources = stage.deployment(stack)["resources"].as_array().cloned();
    let named = |resource: Value| {
        let name = short(resource["urn"].as_str().unwrap()).to_owned();
        let old = if resource["delete"] == json!(true) {
            " (old)"
        } else {
            ""
        };
        (format!("{name}{old}"), resource)
    };
    resources.into_iter().flatten().map(named).collect()
}

/// What a resource has of the fields that a case names; references to resources by their names.
fn like(resource: &Value, want: &Value) -> Value {
    let Some(fields) = want.as_object() else {
        return resource.clone();
    };
    let fields = fields
        .keys()
        .map(|key| (key.clone(), named(&resource[key])));
    Value::Object(fields.collect::<Map<_, _>>())
}

fn named(value: &Value) -> Value {
    match value {
        Value::String(text)
            if text.starts_with("urn:pulumi:") && text.matches("::").count() == 3 =>
        {
            json!(short(text))
        }
        Value::Array(values) => {
            let mut values: Vec<_> = values.iter().map(named).collect();
            values.sort_by_key(ToString::to_string);
            Value::Array(values)
        }
        Value::Number(number) => number
            .as_f64()
            .and_then(pulumi_yaml::text::from_float)
            .map_or(value.clone(), Value::Number),
        Value::Object(entries) if entries.contains_key("ciphertext") => json!("<secret>"),
        Value::Object(entries) => entries
            .iter()
            .map(|(key, value)| (key.clone(), named(value)))
            .collect(),
        other => other.clone(),
    }
}
