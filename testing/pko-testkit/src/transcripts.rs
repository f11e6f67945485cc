//! Recorded calls of the real CLI, replayed against the stand-in, the embedded engine, or another
//! version of the CLI.

#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "tests use it, and end with what it finds"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde::Deserialize;

mod compare;

/// The initial program.
const PROGRAM: &str = "name: demo\nruntime: yaml\n";

const RECORDER: &str = "root";

#[derive(Deserialize)]
struct RecordedCommand {
    argv: Vec<String>,
    exit: i32,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    stdin: Option<String>,
}

/// The names of the transcripts between two numbers of two digits.
#[must_use]
pub fn between(first: &str, last: &str) -> Vec<String> {
    let entries = fs::read_dir(all()).expect("the transcripts are there");
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| (first..=last).contains(&name.get(..2).unwrap_or_default()))
        .filter(|name| name != "README.md")
        .collect();
    names.sort();
    names
}

fn all() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

/// A folder for a CLI, in which calls are made one after the other.
pub struct TranscriptReplay {
    folder: tempfile::TempDir,
    program: PathBuf,
    environment: Vec<(String, PathBuf)>,
    ignore_text: Vec<&'static str>,
    left_out: Vec<&'static str>,
    mask_lines: Vec<&'static str>,
    problems: Vec<String>,
}

impl TranscriptReplay {
    /// A folder for this CLI.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        for name in ["project", "state", "home"] {
            fs::create_dir(folder.path().join(name)).expect("a folder can be made");
        }
        let replay = Self {
            folder,
            program: program.into(),
            environment: Vec::new(),
            ignore_text: Vec::new(),
            left_out: Vec::new(),
            // The last one depends on the load of the machine.
            mask_lines: vec!["\"lastUpdate\": ", "\"user\": ", "[id=", "Duration: "],
            problems: Vec::new(),
        };
        replay.write(PROGRAM);
        replay
    }

    /// A further variable of all calls.
    #[must_use]
    pub fn environment(mut self, name: &str, value: impl Into<PathBuf>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Of these only the exit code, the events and the config file are compared.
    #[must_use]
    pub fn ignore_text(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.ignore_text.extend(names);
        self
    }

    /// These calls are not made.
    #[must_use]
    pub fn skip(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.left_out.extend(names);
        self
    }

    /// Where something of the replay is.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, program: &str) {
        let file = self.path("project/Pulumi.yaml");
        fs::write(file, program).expect("a file can be written");
    }

    /// Makes the call of a transcript and compares all that it left.
    pub fn run(&mut self, name: &str) {
        let transcript = all().join(name);
        if let Ok(program) = fs::read_to_string(transcript.join("Pulumi.yaml")) {
            self.write(&program);
        }
        if name.ends_with("no-project") {
            let file = self.path("project/Pulumi.yaml");
            fs::remove_file(file).expect("the program was there");
        }
        if self.left_out.contains(&name) {
            return;
        }
        let recorded = fs::read(transcript.join("command.json")).expect("a call is recorded");
        let recorded: RecordedCommand = serde_json::from_slice(&recorded).expect("it is a call");
        let output = self.call(&recorded);
        let found = self.differences(name, &transcript, &recorded, &output);
        let named = found
            .into_iter()
            .map(|problem| format!("{name}: {problem}"));
        self.problems.extend(named);
    }

    fn differences(
        &self,
        name: &str,
        transcript: &Path,
        recorded: &RecordedCommand,
        output: &Output,
    ) -> Vec<String> {
        let text = |bytes: &[u8]| self.plain(&String::from_utf8_lossy(bytes));
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let mut found = Vec::new();
        let code = output.status.code();
        if code != Some(recorded.exit) {
            let expected = recorded.exit;
            found.push(format!("ended with {code:?}, not {expected}: {out}{err}"));
        }
        let mut compare = |what: &str, seen: String, expected: String| {
            if seen != expected {
                found.push(format!("{what}\n{seen}\nexpected:\n{expected}"));
            }
        };
        if !self.ignore_text.contains(&name) {
            let expected = |file| {
                let text = fs::read_to_string(transcript.join(file));
                self.plain(&text.expect("the texts are recorded"))
            };
            compare("standard output", out, expected("stdout.txt"));
            compare("standard error", err, expected("stderr.txt"));
        }
        let events = transcript.join("events.jsonl");
        if events.exists() {
            let seen = compare::events(&self.path("project/events.jsonl"));
            compare("events", seen, compare::events(&events));
        }
        let config = transcript.join("Pulumi.dev.yaml");
        if config.exists() {
            let seen = compare::configuration(&self.path("project/Pulumi.dev.yaml"));
            compare("config", seen, compare::configuration(&config));
        }
        found
    }

    fn call(&self, recorded: &RecordedCommand) -> Output {
        let arguments = recorded.argv.iter().skip(1);
        let mut command = Command::new(&self.program);
        command
            .args(arguments.map(|argument| self.real(argument)))
            .current_dir(self.path("project"))
            .env("USER", RECORDER)
            .env("HOME", self.path("home"))
            .env("PULUMI_HOME", self.path("home"))
            .env("PULUMI_BACKEND_URL", self.real("file:///state"))
            .env("PULUMI_CONFIG_PASSPHRASE", "correct-horse")
            .env("PULUMI_DEBUG_COMMANDS", "true")
            .env("PULUMI_AUTOMATION_API", "true")
            .env("PULUMI_SKIP_UPDATE_CHECK", "true")
            .env_remove("PULUMI_ACCESS_TOKEN")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
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
        let mut child = command.spawn().expect("the CLI can be started");
        if let Some(mut stdin) = child.stdin.take() {
            let input = recorded.stdin.as_deref().unwrap_or_default();
            // A call that does not read it may have ended
            let _ = stdin.write_all(input.as_bytes());
        }
        child.wait_with_output().expect("the CLI ends")
    }

    fn real(&self, text: &str) -> String {
        let folder = self.folder.path().display();
        let text = text.replace("/project", &format!("{folder}/project"));
        text.replace("/state", &format!("{folder}/state"))
    }

    /// Normalizes paths, and masks values that differ between runs.
    fn plain(&self, text: &str) -> String {
        let text = text.replace(&self.folder.path().display().to_string(), "");
        text.lines().fold(String::new(), |text, line| {
            let mut begins = self.mask_lines.iter().copied();
            let mask_lines = begins.find(|begin| line.trim_start().starts_with(begin));
            let user = (line == user()).then_some(RECORDER);
            // Before that is the name of the machine
            let after_machine = line.find("does not support environments");
            let line = after_machine.map_or(line, |place| &line[place..]);
            text + mask_lines.or(user).unwrap_or(line) + "\n"
        })
    }

    /// Ends it; panics with all that was otherwise than recorded.
    pub fn finish(self) {
        let count = self.problems.len();
        assert!(
            count == 0,
            "{count} problems:\n{}",
            self.problems.join("\n")
        );
    }
}

fn user() -> &'static str {
    static USER: OnceLock<String> = OnceLock::new();
    USER.get_or_init(|| {
        let output = Command::new("id").arg("-un").output();
        let output = output.expect("`id` tells who runs this");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}
