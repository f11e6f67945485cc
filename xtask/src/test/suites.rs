//! The suites: programs of tests that cargo builds. Does I/O: runs cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use super::Layer;
use crate::{cargo, progress::Step};

/// The suite on a real cluster.
const E2E: &str = "e2e/e2e";
/// Another one that needs images.
const OF_IMAGES: &str = "xtask/image";
/// Examples in the documentation, which rustdoc builds and runs.
const DOCUMENTATION: &str = "documentation";

/// Where most of a suite's time is waiting, more tests run at a time than there are cores. Suites
/// start in this order: the longest first.
const THREADS: [(&str, usize); 7] = [
    // All at once: the suite itself chooses which of them run when
    (E2E, 100),
    ("pko-operator/it", 8),
    ("pko-engine/it", 2),
    ("pko-agent/it", 5),
    ("pko-testkit/cluster", 2),
    ("pko-source/it", 6),
    ("pko-testkit/it", 4),
];

/// A program of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// Where it runs.
    pub(super) folder: PathBuf,
    is_unit_tests: bool,
}

impl Suite {
    /// How many of its tests run at a time; the number of cores if nothing is said.
    fn threads(&self) -> Option<usize> {
        let known = THREADS.iter().find(|(name, _)| *name == self.name);
        known.map(|(_, threads)| *threads)
    }

    /// How it is run.
    pub(super) fn command(&self) -> Command {
        let mut command = match self.name.as_str() {
            DOCUMENTATION => cargo(),
            E2E => Command::new(&self.program),
            // E2e lasts longest and waits most: what it computes comes first
            _ => {
                let mut command = Command::new("nice");
                command.arg(&self.program);
                command
            }
        };
        command.args(&self.arguments).current_dir(&self.folder);
        // As `cargo test` does for a test program. Not for cargo itself: build scripts that depend
        // on this variable would run again, and half of the crates with them
        if self.name != DOCUMENTATION {
            command.env("CARGO_MANIFEST_DIR", &self.folder);
        }
        if let Some(threads) = self.threads() {
            command.env("RUST_TEST_THREADS", threads.to_string());
        }
        command
    }

    /// The file for all that it prints.
    pub(super) fn log_name(&self) -> String {
        let is_plain = |letter: char| letter.is_alphanumeric() || letter == '-';
        let name = self.name.replace(|letter| !is_plain(letter), "-");
        format!("{}.log", name.trim_matches('-'))
    }

    /// The sooner it starts, the smaller. The longest come first, so that none of them is left alone
    /// at the end; unit tests and examples, which compute, fill what is left of the cores.
    fn order(&self) -> usize {
        let place = THREADS.iter().position(|(name, _)| *name == self.name);
        let last = THREADS.len();
        match place {
            Some(place) => place,
            None if self.name == DOCUMENTATION => last + 1,
            None if self.is_unit_tests => last + 2,
            None => last,
        }
    }

    /// Examples in the documentation; cargo says the same of them as a suite does.
    fn documentation() -> Self {
        let arguments = ["test", "--workspace", "--doc"];
        Self {
            name: DOCUMENTATION.to_owned(),
            program: cargo().get_program().into(),
            arguments: arguments.map(ToOwned::to_owned).into(),
            folder: crate::checkout(),
            is_unit_tests: true,
        }
    }
}

/// Builds the suites and finds out which they are, in the order in which they start.
pub(super) fn build(layer: Option<Layer>) -> anyhow::Result<Vec<Suite>> {
    let step = Step::begin("building programs and tests");
    let output = command(layer)
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("failed to run cargo")?;
    if !output.status.success() {
        bail!("the tests do not build: see the errors of cargo above");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut suites: Vec<Suite> = messages.lines().filter_map(suite).collect();
    suites.retain(|suite| is_wanted(layer, suite));
    if layer.is_none_or(|layer| layer == Layer::Unit) {
        suites.push(Suite::documentation());
    }
    suites.sort_by_key(Suite::order);
    println!("  {} suites, {}", suites.len(), step.elapsed());
    Ok(suites)
}

/// One set of packages and targets for every layer that runs programs: another set has other
/// features, and compiles what they share once more.
fn command(layer: Option<Layer>) -> Command {
    let mut command = cargo();
    command.args(["test", "--workspace"]);
    match layer {
        Some(Layer::Unit) => command.args(["--lib", "--bins"]),
        Some(Layer::It | Layer::E2e) | None => command.arg("--all-targets"),
    };
    command
}

fn is_wanted(layer: Option<Layer>, suite: &Suite) -> bool {
    let needs_images = suite.name == E2E || suite.name == OF_IMAGES;
    match layer {
        None => true,
        Some(Layer::Unit) => suite.is_unit_tests,
        Some(Layer::It) => !suite.is_unit_tests && !needs_images,
        Some(Layer::E2e) => needs_images,
    }
}

/// The suite that a message of cargo announces, if it is about one.
fn suite(message: &str) -> Option<Suite> {
    let message: Value = serde_json::from_str(message).ok()?;
    if !message.pointer("/profile/test")?.as_bool()? {
        return None;
    }
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    let folder = manifest.parent()?;
    let package = folder.file_name()?.to_str()?;
    let target = message.pointer("/target/name")?.as_str()?;
    let kind = message.pointer("/target/kind/0")?.as_str()?;
    let is_unit_tests = kind != "test";
    let name = if is_unit_tests {
        format!("{package} ({kind} {target})")
    } else {
        format!("{package}/{target}")
    };
    Some(Suite {
        name,
        program: message.get("executable")?.as_str()?.into(),
        // Passing tests are shown, too: that is where one says that it was skipped
        arguments: vec!["--show-output".to_owned()],
        folder: folder.to_owned(),
        is_unit_tests,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGE: &str = r#"{"reason":"compiler-artifact","manifest_path":"/src/crates/pko-api/Cargo.toml","target":{"kind":["test"],"name":"it"},"profile":{"test":true},"executable":"/target/it"}"#;

    #[test]
    fn suite_is_found_in_message_of_cargo() {
        let found = suite(MESSAGE).unwrap();
        assert_eq!(
            (found.name.as_str(), found.folder.as_path()),
            ("pko-api/it", Path::new("/src/crates/pko-api"))
        );
        assert!(suite(&MESSAGE.replace("\"test\":true", "\"test\":false")).is_none());
        assert!(suite(&MESSAGE.replace("\"/target/it\"", "null")).is_none());
        assert!(suite("not json").is_none());
    }

    #[test]
    fn suite_gets_its_manifest_folder_but_cargo_does_not() {
        let sets_it = |suite: &Suite| {
            let command = suite.command();
            let mut variables = command.get_envs();
            variables.any(|(name, value)| name == "CARGO_MANIFEST_DIR" && value.is_some())
        };
        assert!(sets_it(&suite(MESSAGE).unwrap()));
        assert!(!sets_it(&Suite::documentation()));
    }

    #[test]
    fn layer_has_the_suites_it_names() {
        let integration = suite(MESSAGE).unwrap();
        let unit = suite(&MESSAGE.replace(r#"["test"]"#, r#"["lib"]"#)).unwrap();
        let e2e = Suite {
            name: "e2e/e2e".to_owned(),
            ..integration.clone()
        };
        let wanted = |layer| [&unit, &integration, &e2e].map(|suite| is_wanted(layer, suite));
        assert_eq!(wanted(None), [true, true, true]);
        assert_eq!(wanted(Some(Layer::Unit)), [true, false, false]);
        assert_eq!(wanted(Some(Layer::It)), [false, true, false]);
        assert_eq!(wanted(Some(Layer::E2e)), [false, false, true]);
    }

    #[test]
    fn longest_suites_start_first() {
        let integration = suite(MESSAGE).unwrap();
        let named = |name: &str| Suite {
            name: name.to_owned(),
            ..integration.clone()
        };
        let unit = suite(&MESSAGE.replace(r#"["test"]"#, r#"["lib"]"#)).unwrap();
        let mut suites: Vec<Suite> = vec![unit.clone(), Suite::documentation()];
        suites.extend(["pko-api/it", "pko-operator/it", "e2e/e2e"].map(named));
        suites.sort_by_key(Suite::order);
        let found: Vec<&str> = suites.iter().map(|suite| suite.name.as_str()).collect();
        let last = [DOCUMENTATION, unit.name.as_str()];
        let first = ["e2e/e2e", "pko-operator/it", "pko-api/it"];
        assert_eq!(found, [&first[..], &last].concat());
    }
}
