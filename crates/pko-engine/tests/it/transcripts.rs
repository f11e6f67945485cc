//! This engine held against what the real CLI answered, call by call: exit code, output, events and config file.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use pko_engine::syntax;
use serde_json::Value;

use crate::stage::ENGINE;

/// The program of the transcripts up to 42; those from 50 on have theirs beside them.
const PROGRAM: &str = r#"name: demo
runtime: yaml
config:
  greeting: {type: string}
  size: {type: integer}
  token: {type: string, secret: true}
resources:
  first:
    type: pulumi:index:Stash
    properties: {input: "v${size}"}
  second:
    type: pulumi:index:Stash
    properties:
      input: {text: "${greeting}", from: "${first.output}", list: [1, true, null, 2.5]}
outputs:
  first: ${first.output}
  second: ${second.output}
  hidden: {fn::secret: s3cr3t}
  nested: {plain: 1, deep: {fn::secret: {k: v}}}
"#;

/// Calls whose texts are this engine's own, each with the reason. Exit codes and events are the same.
const OWN_TEXT: [(&str, &str); 14] = [
    ("01-version", "the version of this engine"),
    ("21-history", "the environment of the run"),
    ("28-refresh", "times, and resources come in any order"),
    ("29-up-bad-reference", "the language host's own colors"),
    ("30-up-bad-yaml", "another YAML parser"),
    ("31-up-missing-plugin", "this engine runs no plugin"),
    ("38-env-add-diy", "no command to log in"),
    ("39-destroy-protect", "diagnostics come in any order"),
    ("40-destroy", "times, and a line about a stack that is gone"),
    ("55-small-history", "the environment of the run"),
    ("58-small-refresh", "resources come in any order"),
    ("61-small-log-level", "no logs of its own"),
    (
        "80-small-destroy",
        "times, and a line about a stack that is gone",
    ),
    ("99-no-project", "no command to make a project"),
];

/// Calls that this engine answers in another way, each with the reason.
const OTHERWISE: [(&str, &str); 5] = [
    ("77-config-object-secret", "a structured secret is taken"),
    ("87-assets-up", "the hash of a folder with a new salt in it"),
    ("88-assets-output", "the same"),
    (
        "89-install-go",
        "another language is refused by its own text",
    ),
    (
        "91-up-interrupted",
        "a run that was canceled ends with the code that is documented for it",
    ),
];

struct Recorded {
    arguments: Vec<String>,
    exit: i64,
    environment: BTreeMap<String, String>,
    input: String,
}

/// Who runs this.
fn user() -> &'static str {
    static USER: OnceLock<String> = OnceLock::new();
    USER.get_or_init(|| {
        let output = Command::new("id").arg("-un").output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../pko-testkit/transcripts")
}

fn recorded(name: &str) -> Recorded {
    let text = fs::read(folder().join(name).join("command.json")).unwrap();
    let call: Value = serde_json::from_slice(&text).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let environment = call["env"].as_object().cloned().unwrap_or_default();
    Recorded {
        arguments: call["argv"]
            .as_array()
            .unwrap()
            .iter()
            .skip(1)
            .map(text)
            .collect(),
        exit: call["exit"].as_i64().unwrap(),
        environment: environment
            .iter()
            .map(|(key, value)| (key.clone(), text(value)))
            .collect(),
        input: text(&call["stdin"]),
    }
}

struct Journey {
    folder: tempfile::TempDir,
    problems: Vec<String>,
}

impl Journey {
    fn new(program: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["project", "state", "home"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let journey = Self {
            folder,
            problems: Vec::new(),
        };
        journey.write(program);
        journey
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, program: &str) {
        fs::write(self.path("project/Pulumi.yaml"), program).unwrap();
    }

    /// Makes the call of a transcript and compares all that it left.
    fn repeat(&mut self, name: &str) {
        let transcript = folder().join(name);
        if let Ok(program) = fs::read_to_string(transcript.join("Pulumi.yaml")) {
            self.write(&program);
        }
        if name.ends_with("no-project") {
            fs::remove_file(self.path("project/Pulumi.yaml")).unwrap();
        }
        if OTHERWISE.iter().any(|(other, _)| *other == name) {
            return;
        }
        let recorded = recorded(name);
        let output = self.call(&recorded);
        let text = |bytes: &[u8]| self.plain(&String::from_utf8_lossy(bytes));
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let mut problems = Vec::new();
        let code = output.status.code().map(i64::from);
        if code != Some(recorded.exit) {
            problems.push(format!(
                "{name}: {code:?}, expected {}: {out}{err}",
                recorded.exit
            ));
        }
        let mut compare = |what: &str, seen: String, expected: String| {
            if seen != expected {
                problems.push(format!("{name}: {what}\n{seen}\nexpected:\n{expected}"));
            }
        };
        if !OWN_TEXT.iter().any(|(own, _)| *own == name) {
            let read = |file| self.plain(&fs::read_to_string(transcript.join(file)).unwrap());
            compare("standard output", out, read("stdout.txt"));
            compare("standard error", err, read("stderr.txt"));
        }
        let events = transcript.join("events.jsonl");
        if events.exists() {
            let seen = shape(&self.path("project/events.jsonl"));
            compare("events", seen, shape(&events));
        }
        let config = transcript.join("Pulumi.dev.yaml");
        if config.exists() {
            let seen = configuration(&self.path("project/Pulumi.dev.yaml"));
            compare("config", seen, configuration(&config));
        }
        self.problems.extend(problems);
    }

    fn call(&self, recorded: &Recorded) -> Output {
        let mut command = Command::new(ENGINE);
        command
            .args(
                recorded
                    .arguments
                    .iter()
                    .map(|argument| self.real(argument)),
            )
            .current_dir(self.path("project"))
            .env("HOME", self.path("home"))
            .env("PULUMI_HOME", self.path("home"))
            .env("PULUMI_BACKEND_URL", self.real("file:///state"))
            .env("PULUMI_CONFIG_PASSPHRASE", "correct-horse")
            .env("PULUMI_DEBUG_COMMANDS", "true")
            .env_remove("PULUMI_ACCESS_TOKEN")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, value) in &recorded.environment {
            match value.as_str() {
                "" => command.env_remove(name),
                value => command.env(name, self.real(value)),
            };
        }
        let _ = fs::remove_file(self.path("project/events.jsonl"));
        let mut child = command.spawn().unwrap();
        // a call that does not read it may have ended
        let _ = child
            .stdin
            .take()
            .unwrap()
            .write_all(recorded.input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// A transcript's paths, here.
    fn real(&self, text: &str) -> String {
        let folder = self.folder.path().display();
        let text = text.replace("/project", &format!("{folder}/project"));
        text.replace("/state", &format!("{folder}/state"))
    }

    /// A text with a transcript's paths, and without what is never the same twice.
    fn plain(&self, text: &str) -> String {
        let text = text.replace(&self.folder.path().display().to_string(), "");
        text.lines().fold(String::new(), |text, line| {
            let begins = ["\"lastUpdate\": ", "\"user\": ", "[id=", "Duration: "];
            let changing = begins
                .into_iter()
                .find(|begin| line.trim_start().starts_with(begin));
            // who recorded them
            let user = (line == user()).then_some("root");
            text + changing.or(user).unwrap_or(line) + "\n"
        })
    }

    fn end(self) {
        let count = self.problems.len();
        assert!(
            count == 0,
            "{count} problems:\n{}",
            self.problems.join("\n")
        );
    }
}

/// What kinds of events there are, in no order: steps of resources that do not depend on each other come as they come.
/// Debugging texts and steps of providers are the engine's own business.
fn shape(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut shapes: Vec<String> = text.lines().filter_map(event_shape).collect();
    shapes.sort();
    shapes.join("\n")
}

fn event_shape(line: &str) -> Option<String> {
    let event: BTreeMap<String, Value> = serde_json::from_str(line).unwrap();
    let (kind, payload) = event.iter().find(|(key, _)| key.ends_with("Event"))?;
    let metadata = &payload["metadata"];
    let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
    if kind == "diagnosticEvent" || text("type").starts_with("pulumi:providers:") {
        return None;
    }
    let outputs = match (kind.as_str(), text("type").as_str()) {
        ("resOutputsEvent", "pulumi:pulumi:Stack") => metadata["new"]["outputs"].to_string(),
        _ => String::new(),
    };
    let summary = (
        &payload["resourceChanges"],
        &payload["isPreview"],
        &payload["result"],
    );
    let planning = &payload["planning"];
    Some(format!(
        "{kind} {} {} {planning} {summary:?} {outputs}",
        text("op"),
        text("urn")
    ))
}

/// A config file without what is sealed.
fn configuration(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut value = syntax::parse(&text).unwrap().to_json();
    if let Some(salt) = value.get_mut("encryptionsalt") {
        *salt = Value::from("a salt");
    }
    if let Some(entries) = value.get_mut("config").and_then(Value::as_object_mut) {
        for entry in entries.values_mut() {
            *entry = match &*entry {
                Value::Object(map) if map.contains_key("secure") => Value::from("a secret"),
                Value::Bool(_) | Value::Number(_) => Value::from(entry.to_string()),
                other => other.clone(),
            };
        }
    }
    value.to_string()
}

/// The names of the transcripts between two numbers.
fn between(first: &str, last: &str) -> Vec<String> {
    let entries = fs::read_dir(folder()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter(|name| (first..=last).contains(&name.get(..2).unwrap_or_default()))
        .filter(|name| name != "README.md")
        .collect();
    names.sort();
    names
}

#[test]
fn the_life_of_a_stack() {
    let mut journey = Journey::new(PROGRAM);
    for name in between("01", "42") {
        let other = PROGRAM.replace("v${size}", "w${size}");
        let renamed = PROGRAM.replace("  second:\n    type", "  third:\n    type");
        let renamed = renamed.replace("${second.output}", "${third.output}");
        match name.get(..2).unwrap() {
            "25" => journey.write(&other),
            "27" | "32" => journey.write(&renamed),
            "29" => journey.write(&renamed.replace("${greeting}", "${greting}")),
            "30" => journey.write("name: demo\nruntime: yaml\nresources: [\n"),
            "31" => journey.write(&renamed.replacen("pulumi:index:Stash", "nosuch:index:Thing", 1)),
            "33" => lock(&journey),
            _ => {}
        }
        journey.repeat(&name);
    }
    journey.end();
}

/// Somebody else holds the lock.
fn lock(journey: &Journey) {
    let locks = journey.path("state/.pulumi/locks/organization/demo/dev");
    fs::create_dir_all(&locks).unwrap();
    let content = r#"{"pid":4242,"username":"pulumi","hostname":"demo-workspace-0","timestamp":"2026-01-02T03:04:05Z"}"#;
    let file = locks.join("8a8b7f3e-0000-4000-8000-000000000001.json");
    fs::write(file, content).unwrap();
}

#[test]
fn the_life_of_a_small_stack() {
    let mut journey = Journey::new("name: demo\nruntime: yaml\n");
    for name in between("50", "88") {
        journey.repeat(&name);
    }
    journey.end();
}

#[test]
fn changes_of_a_program() {
    let mut journey = Journey::new("name: demo\nruntime: yaml\n");
    for name in between("92", "99") {
        journey.repeat(&name);
    }
    journey.end();
}
