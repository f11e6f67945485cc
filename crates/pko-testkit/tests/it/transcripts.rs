//! The stand-in held against what the real CLI answered, call by call; and, if `PKO_PULUMI` names one, a real
//! CLI against the same, so that neither the stand-in nor the transcripts drift.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use pko_testkit::{Script, StandIn};
use serde::Deserialize;
use serde_json::Value;

/// Of these only the exit code and the events are compared: their text tells how long things took, or what
/// else there is in the surroundings.
const FREE_TEXT: [&str; 4] = [
    "55-small-history",
    "58-small-refresh",
    "61-small-log-level",
    "80-small-destroy",
];

#[derive(Deserialize)]
struct Recorded {
    argv: Vec<String>,
    exit: i32,
    #[serde(default)]
    env: BTreeMap<String, String>,
    stdin: Option<String>,
}

/// A folder for a CLI, and the transcripts that it is held against.
struct Journey {
    folder: tempfile::TempDir,
    program: PathBuf,
    stand_in: StandIn,
}

impl Journey {
    fn new(program: PathBuf) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["project", "state", "home"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let stand_in = StandIn::new(folder.path().join("stand-in"), &Script::new());
        let project = "name: demo\nruntime: yaml\n";
        fs::write(folder.path().join("project/Pulumi.yaml"), project).unwrap();
        Self {
            folder,
            program,
            stand_in,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes the call of a transcript, and compares everything that it left.
    fn repeat(&self, name: &str) {
        let transcript = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("transcripts")
            .join(name);
        if let Ok(program) = fs::read_to_string(transcript.join("Pulumi.yaml")) {
            fs::write(self.path("project/Pulumi.yaml"), program).unwrap();
        }
        if name.ends_with("no-project") {
            fs::remove_file(self.path("project/Pulumi.yaml")).unwrap();
        }
        let command = fs::read(transcript.join("command.json")).unwrap();
        let recorded: Recorded = serde_json::from_slice(&command).unwrap();
        let output = self.call(&recorded);
        let text = |bytes: &[u8]| self.plain(&String::from_utf8_lossy(bytes));
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(recorded.exit), "{name}: {said}");
        if !FREE_TEXT.contains(&name) {
            let expected = |file| self.plain(&fs::read_to_string(transcript.join(file)).unwrap());
            assert_eq!(text(&output.stdout), expected("stdout.txt"), "{name}");
            assert_eq!(text(&output.stderr), expected("stderr.txt"), "{name}");
        }
        let events = transcript.join("events.jsonl");
        if events.exists() {
            let happened = shape(&self.path("project/events.jsonl"));
            assert_eq!(happened, shape(&events), "{name}");
        }
        let config = transcript.join("Pulumi.dev.yaml");
        if config.exists() {
            let written = configuration(&self.path("project/Pulumi.dev.yaml"));
            assert_eq!(written, configuration(&config), "{name}");
        }
    }

    fn call(&self, recorded: &Recorded) -> Output {
        let arguments = recorded.argv.iter().skip(1);
        let real = |argument: &String| self.real(argument);
        let mut command = Command::new(&self.program);
        command
            .args(arguments.map(real))
            .current_dir(self.path("project"))
            // Who recorded them
            .env("USER", "root")
            .env("HOME", self.path("home"))
            .env("PULUMI_HOME", self.path("home"))
            .env("PULUMI_BACKEND_URL", self.real("file:///state"))
            .env("PULUMI_CONFIG_PASSPHRASE", "correct-horse")
            .env("PULUMI_DEBUG_COMMANDS", "true")
            .env("PULUMI_AUTOMATION_API", "true")
            .env("PULUMI_SKIP_UPDATE_CHECK", "true")
            .env("PKO_STAND_IN", self.stand_in.folder())
            .env_remove("PULUMI_ACCESS_TOKEN")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for (name, value) in &recorded.env {
            match value.as_str() {
                "" => command.env_remove(name),
                value => command.env(name, self.real(value)),
            };
        }
        let _ = fs::remove_file(self.path("project/events.jsonl"));
        let mut child = command.spawn().unwrap();
        let input = recorded.stdin.clone().unwrap_or_default();
        // A call that does not read it may have ended.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
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
            let begins = ["\"lastUpdate\": ", "\"user\": ", "[id="];
            let changing = begins
                .into_iter()
                .find(|begin| line.trim_start().starts_with(begin));
            // Before that is the name of the machine.
            let after_machine = line.find("does not support environments");
            let line = after_machine.map_or(line, |place| &line[place..]);
            text + changing.unwrap_or(line) + "\n"
        })
    }
}

/// What kinds of events there are, in no order: steps of resources that do not depend on each other come as
/// they come. Debugging texts and steps of providers are the engine's own business.
fn shape(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let mut shapes: Vec<String> = text.lines().filter_map(event_shape).collect();
    shapes.sort();
    shapes
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
        payload["resourceChanges"].clone(),
        payload["isPreview"].clone(),
    );
    let planning = payload["planning"].clone();
    Some(format!(
        "{kind} {} {} {planning} {summary:?} {outputs}",
        text("op"),
        text("urn")
    ))
}

/// A configuration file without what is encrypted.
fn configuration(file: &Path) -> Value {
    let text = fs::read_to_string(file).unwrap();
    let mut value: Value = serde_saphyr::from_str(&text).unwrap();
    value["encryptionsalt"] = Value::Null;
    if let Some(entries) = value["config"].as_object_mut() {
        for entry in entries.values_mut() {
            *entry = match &*entry {
                Value::Object(map) if map.contains_key("secure") => Value::from("a secret"),
                // The CLI rewrites them as text when it next writes the file.
                Value::Bool(_) | Value::Number(_) => Value::from(entry.to_string()),
                other => other.clone(),
            };
        }
    }
    value
}

/// The names of the transcripts between two numbers.
fn between(first: &str, last: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter(|name| (first..=last).contains(&name.get(..2).unwrap_or_default()))
        .collect();
    names.sort();
    names
}

/// On the stand-in, and on a real CLI if there is one.
fn repeat(names: &[String]) {
    let real = std::env::var_os("PKO_PULUMI").map(PathBuf::from);
    for program in [StandIn::program()].into_iter().chain(real) {
        let journey = Journey::new(program);
        for name in names {
            journey.repeat(name);
        }
    }
}

#[test]
fn stacks_and_configuration() {
    let mut names = between("01", "16");
    // What is between is of a larger program, or of a lock that somebody else holds.
    for number in ["32", "34", "35", "36", "37", "38", "41", "42"] {
        names.extend(between(number, number));
    }
    repeat(&names);
}

#[test]
fn the_life_of_a_small_stack() {
    repeat(&between("50", "85"));
}

#[test]
fn changes_of_a_program() {
    repeat(&between("92", "99"));
}
