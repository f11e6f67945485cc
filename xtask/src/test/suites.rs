//! Builds and lists the suites: test executables, and the doc tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use super::Layer;
use pko_testkit::{checkout::cargo, progress::Step};

const E2E: &str = "e2e/e2e";
/// Also needs images.
const IMAGE_SUITE: &str = "xtask/image";
/// Doc tests, which rustdoc builds and runs.
const DOCUMENTATION: &str = "documentation";
/// The packages with doc tests. rustdoc compiles each package that it is asked to test, examples or
/// not.
const DOCUMENTED_PACKAGES: [&str; 2] = ["pko-auth", "pko-testkit"];

/// Suites that mostly wait run more tests at a time than there are cores. They start in this order,
/// the longest first.
const THREADS: [(&str, usize); 7] = [
    // The suite schedules its tests itself.
    (E2E, 100),
    ("pko-operator/it", 8),
    ("pko-engine/it", 2),
    ("pko-agent/it", 5),
    ("pko-testkit/cluster", 2),
    ("pko-source/it", 6),
    ("pko-testkit/it", 4),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suite {
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// The working directory.
    pub(super) folder: PathBuf,
    is_unit_tests: bool,
}

impl Suite {
    /// The number of concurrent tests. `None` is the number of cores.
    fn threads(&self) -> Option<usize> {
        let known = THREADS.iter().find(|(name, _)| *name == self.name);
        known.map(|(_, threads)| *threads)
    }

    pub(super) fn command(&self) -> Command {
        let mut command = match self.name.as_str() {
            DOCUMENTATION => cargo(),
            E2E => Command::new(&self.program),
            // E2e lasts longest and mostly waits, so it gets the CPU first.
            _ => {
                let mut command = Command::new("nice");
                command.arg(&self.program);
                command
            }
        };
        command.args(&self.arguments).current_dir(&self.folder);
        // As `cargo test` does. Not for cargo itself: build scripts that depend on this variable
        // would run again, and rebuild half of the crates.
        if self.name != DOCUMENTATION {
            command.env("CARGO_MANIFEST_DIR", &self.folder);
        }
        if let Some(threads) = self.threads() {
            command.env("RUST_TEST_THREADS", threads.to_string());
        }
        command
    }

    /// The log file.
    pub(super) fn log_name(&self) -> String {
        let is_plain = |letter: char| letter.is_alphanumeric() || letter == '-';
        let name = self.name.replace(|letter| !is_plain(letter), "-");
        format!("{}.log", name.trim_matches('-'))
    }

    /// The start order, smallest first. The longest suites come first, so that none runs alone at
    /// the end. Unit tests and doc tests, which compute, fill the remaining CPU time.
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

    /// Doc tests. Cargo's output has the format of a suite's. xtask has none, but turns on the
    /// features that the workspace was built with.
    fn documentation() -> Self {
        let mut arguments = vec!["test", "--doc", "--package", "xtask"];
        for package in DOCUMENTED_PACKAGES {
            arguments.extend(["--package", package]);
        }
        Self {
            name: DOCUMENTATION.to_owned(),
            program: cargo().get_program().into(),
            arguments: arguments.into_iter().map(ToOwned::to_owned).collect(),
            folder: pko_testkit::checkout::checkout(),
            is_unit_tests: true,
        }
    }
}

/// Builds the suites and returns them in start order.
pub(super) fn build(layer: Option<Layer>) -> anyhow::Result<Vec<Suite>> {
    let step = Step::begin("building programs and tests");
    let output = command(layer)
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("failed to run cargo")?;
    if !output.status.success() {
        bail!("the tests do not build; see cargo's errors above");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut suites: Vec<Suite> = messages.lines().filter_map(parse_message).collect();
    suites.retain(|suite| belongs_to(layer, suite));
    if layer.is_none_or(|layer| layer == Layer::Unit) {
        suites.push(Suite::documentation());
    }
    suites.sort_by_key(Suite::order);
    println!("  {} suites, {}", suites.len(), step.elapsed());
    Ok(suites)
}

/// All layers that run programs use the same packages and targets. Another set would have other
/// features and compile shared crates again.
fn command(layer: Option<Layer>) -> Command {
    let mut command = cargo();
    command.args(["test", "--workspace"]);
    match layer {
        Some(Layer::Unit) => command.args(["--lib", "--bins"]),
        Some(Layer::It | Layer::E2e) | None => command.arg("--all-targets"),
    };
    command
}

fn belongs_to(layer: Option<Layer>, suite: &Suite) -> bool {
    let needs_images = suite.name == E2E || suite.name == IMAGE_SUITE;
    match layer {
        None => true,
        Some(Layer::Unit) => suite.is_unit_tests,
        Some(Layer::It) => !suite.is_unit_tests && !needs_images,
        Some(Layer::E2e) => needs_images,
    }
}

/// Parses a message of cargo. Returns `None` unless it is about a test executable.
fn parse_message(message: &str) -> Option<Suite> {
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
        // Shows the output of passing tests, which may report that they were skipped.
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
    fn suite_is_parsed_from_cargo_message() {
        let found = parse_message(MESSAGE).unwrap();
        assert_eq!(
            (found.name.as_str(), found.folder.as_path()),
            ("pko-api/it", Path::new("/src/crates/pko-api"))
        );
        assert!(parse_message(&MESSAGE.replace("\"test\":true", "\"test\":false")).is_none());
        assert!(parse_message(&MESSAGE.replace("\"/target/it\"", "null")).is_none());
        assert!(parse_message("not json").is_none());
    }

    #[test]
    fn suite_but_not_cargo_gets_manifest_dir() {
        let sets_it = |suite: &Suite| {
            let command = suite.command();
            let mut variables = command.get_envs();
            variables.any(|(name, value)| name == "CARGO_MANIFEST_DIR" && value.is_some())
        };
        assert!(sets_it(&parse_message(MESSAGE).unwrap()));
        assert!(!sets_it(&Suite::documentation()));
    }

    /// Whether a file has an example that rustdoc tests.
    fn has_doc_test(text: &str) -> bool {
        let mut is_open = false;
        let fences = text.lines().filter_map(|line| {
            let comment = line.trim_start();
            let comment = comment
                .strip_prefix("//!")
                .or_else(|| comment.strip_prefix("///"))?;
            comment.trim_start().strip_prefix("```")
        });
        let mut found = false;
        for language in fences {
            is_open = !is_open;
            found |= is_open && !["text", "console", "yaml"].contains(&language);
        }
        found
    }

    fn rust_files(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let (folders, files): (Vec<_>, Vec<_>) = entries
            .map(|entry| entry.path())
            .partition(|path| path.is_dir());
        let is_rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
        let mut found: Vec<PathBuf> = files.into_iter().filter(is_rust).collect();
        found.extend(folders.iter().flat_map(|folder| rust_files(folder)));
        found
    }

    #[test]
    fn packages_with_doc_tests_are_listed() {
        let checkout = pko_testkit::checkout::checkout();
        let mut packages = std::collections::BTreeSet::new();
        for wing in ["crates", "engine", "testing"] {
            let wing = checkout.join(wing);
            for file in rust_files(&wing) {
                if has_doc_test(&std::fs::read_to_string(&file).unwrap()) {
                    let package = file.strip_prefix(&wing).unwrap().iter().next().unwrap();
                    packages.insert(package.to_str().unwrap().to_owned());
                }
            }
        }
        assert_eq!(
            packages.into_iter().collect::<Vec<_>>(),
            DOCUMENTED_PACKAGES
        );
    }

    #[test]
    fn layer_selects_its_suites() {
        let integration = parse_message(MESSAGE).unwrap();
        let unit = parse_message(&MESSAGE.replace(r#"["test"]"#, r#"["lib"]"#)).unwrap();
        let e2e = Suite {
            name: "e2e/e2e".to_owned(),
            ..integration.clone()
        };
        let wanted = |layer| [&unit, &integration, &e2e].map(|suite| belongs_to(layer, suite));
        assert_eq!(wanted(None), [true, true, true]);
        assert_eq!(wanted(Some(Layer::Unit)), [true, false, false]);
        assert_eq!(wanted(Some(Layer::It)), [false, true, false]);
        assert_eq!(wanted(Some(Layer::E2e)), [false, false, true]);
    }

    #[test]
    fn longest_suites_start_first() {
        let integration = parse_message(MESSAGE).unwrap();
        let named = |name: &str| Suite {
            name: name.to_owned(),
            ..integration.clone()
        };
        let unit = parse_message(&MESSAGE.replace(r#"["test"]"#, r#"["lib"]"#)).unwrap();
        let mut suites: Vec<Suite> = vec![unit.clone(), Suite::documentation()];
        suites.extend(["pko-api/it", "pko-operator/it", "e2e/e2e"].map(named));
        suites.sort_by_key(Suite::order);
        let found: Vec<&str> = suites.iter().map(|suite| suite.name.as_str()).collect();
        let last = [DOCUMENTATION, unit.name.as_str()];
        let first = ["e2e/e2e", "pko-operator/it", "pko-api/it"];
        assert_eq!(found, [&first[..], &last].concat());
    }
}
