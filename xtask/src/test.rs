//! `cargo xtask test`: every test there is, with a line for each program of tests and one for all.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use anyhow::{Context, bail};
use clap::ValueEnum;
use pko_testkit::{Cluster, Component, Components};
use serde_json::Value;

use crate::{cargo, fuzz, image::trial, progress::Step, target_folder};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these tests
    layer: Option<Layer>,
    /// Also what takes minutes: the whole number of repetitions, and a coverage-guided fuzzer
    #[arg(long)]
    full: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layer {
    /// What needs nothing but the code
    Unit,
    /// What needs a control plane
    It,
    /// What needs a cluster with a node, and images
    E2e,
}

/// The package whose tests need a cluster.
const E2E: &str = "pko-e2e";
/// Its folder, by which its program of tests is known.
const E2E_PROGRAM: &str = "e2e/e2e";
/// Those of its tests that are about a Stack's life, not about the node: they also run with Pulumi's own CLI.
const WITH_CLI: [&str; 7] = [
    "backends::",
    "deletion::",
    "figures::",
    "languages::",
    "life::",
    "scenarios::",
    "sources::",
];
/// Cargo's profile for the programs in its images.
const E2E_PROFILE: &str = "trial";

/// A program of tests that cargo has built.
struct TestProgram {
    name: String,
    executable: PathBuf,
    folder: PathBuf,
    /// Beginnings of the names of its tests that are wanted; none for all.
    filters: &'static [&'static str],
}

/// How many tests ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    failed: usize,
    ignored: usize,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut total = Tally::default();
    let wanted = |layer| arguments.layer.is_none_or(|only| only == layer);
    let [units, parts, whole] = [Layer::Unit, Layer::It, Layer::E2e].map(wanted);
    if parts {
        build_components()?;
        build_programs()?;
    }
    if units || parts {
        for program in build(arguments.layer)? {
            total.add(run_program(&program, arguments.full, &[])?);
        }
    }
    if units {
        total.add(run_documentation()?);
    }
    if whole {
        total.add(run_e2e(arguments)?);
    }
    println!("\n{} passed, {} failed", total.passed, total.failed);
    if total.failed > 0 {
        bail!("{} tests failed", total.failed);
    }
    if arguments.full {
        fuzz::run()?;
    }
    Ok(())
}

/// Builds the control plane's parts first: the tests would wait for that without a word.
fn build_components() -> anyhow::Result<()> {
    let step = Step::begin("control plane");
    let components = Components::from_environment()?;
    for component in Component::ALL {
        components.path(component)?;
    }
    Components::own(Component::StrategicMerge)?;
    if Cluster::obstacle().is_none() {
        for component in Component::NODE {
            components.path(component)?;
        }
        Components::own(Component::Pause)?;
    }
    println!("  ready, {}", step.elapsed());
    Ok(())
}

/// Builds our own programs: tests of one run the others.
fn build_programs() -> anyhow::Result<()> {
    let step = Step::begin("our programs");
    let built = cargo()
        .args(["build", "--workspace", "--bins", "--quiet"])
        .status()
        .context("failed to run cargo")?;
    if !built.success() {
        bail!("our programs do not build");
    }
    println!("  built, {}", step.elapsed());
    Ok(())
}

/// Where cargo puts programs: beside this one.
fn programs() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe()?;
    this.parent()
        .map(Path::to_owned)
        .context("this program is in no folder")
}

fn cargo_test(layer: Option<Layer>) -> Command {
    let mut command = cargo();
    command.arg("test");
    match layer {
        Some(Layer::Unit) => command.args(["--workspace", "--lib", "--bins"]),
        Some(Layer::It) => command.args(["--workspace", "--exclude", E2E, "--test", "*"]),
        Some(Layer::E2e) => command.args(["--package", E2E, "--package", "xtask", "--tests"]),
        None => command.args(["--workspace", "--exclude", E2E, "--all-targets"]),
    };
    command
}

/// Builds the programs of tests and finds out which they are.
fn build(layer: Option<Layer>) -> anyhow::Result<Vec<TestProgram>> {
    let step = Step::begin("building");
    let output = cargo_test(layer)
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("failed to run cargo")?;
    if !output.status.success() {
        bail!("the tests do not build");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    let programs: Vec<TestProgram> = messages.lines().filter_map(test_program).collect();
    println!("  {} programs, {}", programs.len(), step.elapsed());
    Ok(programs)
}

/// The program of tests that a message of cargo announces, if it is about one.
fn test_program(message: &str) -> Option<TestProgram> {
    let message: Value = serde_json::from_str(message).ok()?;
    if !message.pointer("/profile/test")?.as_bool()? {
        return None;
    }
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    let folder = manifest.parent()?;
    let package = folder.file_name()?.to_str()?;
    let target = message.pointer("/target/name")?.as_str()?;
    let kind = message.pointer("/target/kind/0")?.as_str()?;
    let name = if kind == "test" {
        format!("{package}/{target}")
    } else {
        format!("{package} ({kind})")
    };
    Some(TestProgram {
        name,
        executable: message.get("executable")?.as_str()?.into(),
        folder: folder.to_owned(),
        filters: &[],
    })
}

/// The tests that need a cluster, and those of the images; where there can be no cluster, a line that says why.
fn run_e2e(arguments: &Arguments) -> anyhow::Result<Tally> {
    if let Some(obstacle) = Cluster::obstacle() {
        println!("skipped: e2e: {obstacle}");
        return Ok(Tally::default());
    }
    let images = target_folder()?.join("e2e-images");
    let profile = std::env::var("PKO_E2E_PROFILE");
    trial::run(profile.as_deref().unwrap_or(E2E_PROFILE), &images)?;
    build_node()?;
    // Most of the time a test waits for the node: more of them at a time than there are cores
    let threads = Path::new("6");
    let variables = [
        ("PKO_IMAGES", images.as_path()),
        ("RUST_TEST_THREADS", threads),
    ];
    let mut total = Tally::default();
    for program in build(Some(Layer::E2e))? {
        if [E2E_PROGRAM, "xtask/image"].contains(&program.name.as_str()) {
            total.add(run_program(&program, arguments.full, &variables)?);
        }
        if program.name == E2E_PROGRAM {
            total.add(run_e2e_with_cli(program, arguments, &variables)?);
        }
    }
    Ok(total)
}

/// The same Stacks with Pulumi's own CLI, where there is one that runs YAML.
fn run_e2e_with_cli(
    program: TestProgram,
    arguments: &Arguments,
    variables: &[(&str, &Path)],
) -> anyhow::Result<Tally> {
    let Some(pulumi) = std::env::var_os("PKO_PULUMI").map(PathBuf::from) else {
        println!("  skipped: e2e with Pulumi's CLI: PKO_PULUMI names none");
        return Ok(Tally::default());
    };
    if !pulumi.with_file_name("pulumi-language-yaml").is_file() {
        println!("  skipped: e2e with Pulumi's CLI: no pulumi-language-yaml beside it");
        return Ok(Tally::default());
    }
    let program = TestProgram {
        name: format!("{} with Pulumi's CLI", program.name),
        filters: &WITH_CLI,
        ..program
    };
    let variables = [variables, &[("PKO_E2E_CLI", Path::new("1"))]].concat();
    run_program(&program, arguments.full, &variables)
}

/// Builds what a cluster consists of beside a control plane, and the program of ours in it.
fn build_node() -> anyhow::Result<()> {
    let step = Step::begin("cluster");
    let components = Components::from_environment()?;
    for component in Component::ALL.into_iter().chain(Component::NODE) {
        components.path(component)?;
    }
    let mut command = cargo();
    command.args(["build", "--quiet", "--package", "pko-testkit", "--bins"]);
    let built = command.status().context("failed to run cargo")?;
    if !built.success() {
        bail!("the cluster's own program does not build");
    }
    println!("  ready, {}", step.elapsed());
    Ok(())
}

fn run_program(
    program: &TestProgram,
    full: bool,
    variables: &[(&str, &Path)],
) -> anyhow::Result<Tally> {
    let step = Step::begin(&program.name);
    let mut command = Command::new(&program.executable);
    if full {
        command.env("PKO_FULL", "1");
    }
    command.envs(variables.iter().copied());
    // Passing tests are shown, too: that is where one says that it was skipped.
    let output = command
        .arg("--show-output")
        .args(program.filters)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("PKO_BIN_DIR", programs()?)
        .output()
        .with_context(|| format!("failed to run {}", program.executable.display()))?;
    Ok(report(&output, &step))
}

fn run_documentation() -> anyhow::Result<Tally> {
    let step = Step::begin("examples in the documentation");
    let output = cargo()
        .args(["test", "--workspace", "--doc", "--quiet"])
        .output()
        .context("failed to run cargo")?;
    Ok(report(&output, &step))
}

/// Prints what a program of tests came to, and all that it said if a test failed.
fn report(output: &Output, step: &Step) -> Tally {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut tally = Tally::of(&text);
    if !output.status.success() && tally.failed == 0 {
        // It died, or did not build: there is no line with counts.
        tally.failed = 1;
    }
    if tally.failed > 0 {
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    }
    let told = |line: &&str| line.starts_with("skipped") || line.starts_with("measured");
    for line in text.lines().filter(told) {
        println!("  {line}");
    }
    println!("  {tally}, {}", step.elapsed());
    tally
}

impl Tally {
    /// Adds up the lines with which programs of tests close.
    fn of(output: &str) -> Self {
        let mut tally = Self::default();
        for line in output
            .lines()
            .filter_map(|line| line.strip_prefix("test result: "))
        {
            tally.passed += count(line, "passed");
            tally.failed += count(line, "failed");
            tally.ignored += count(line, "ignored");
        }
        tally
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} passed", self.passed)?;
        for (count, word) in [(self.failed, "failed"), (self.ignored, "ignored")] {
            if count > 0 {
                write!(formatter, ", {count} {word}")?;
            }
        }
        Ok(())
    }
}

/// The number before a word in `ok. 3 passed; 0 failed; …`.
fn count(line: &str, word: &str) -> usize {
    line.split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(word))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_lines_are_added_up() {
        let output = "running 3 tests\n...\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
                      test result: FAILED. 36 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 132.04s\n";
        assert_eq!(
            Tally::of(output),
            Tally {
                passed: 39,
                failed: 1,
                ignored: 1
            }
        );
        assert_eq!(
            Tally::of(output).to_string(),
            "39 passed, 1 failed, 1 ignored"
        );
        assert_eq!(Tally::of("error: could not compile"), Tally::default());
    }

    #[test]
    fn a_program_of_tests_is_found_in_cargos_messages() {
        let message = r#"{"reason":"compiler-artifact","manifest_path":"/src/crates/pko-api/Cargo.toml","target":{"kind":["test"],"name":"it"},"profile":{"test":true},"executable":"/target/it"}"#;
        let program = test_program(message).unwrap();
        assert_eq!(
            (program.name.as_str(), program.folder.as_path()),
            ("pko-api/it", Path::new("/src/crates/pko-api"))
        );
        assert!(test_program(&message.replace("\"test\":true", "\"test\":false")).is_none());
        assert!(test_program(&message.replace("\"/target/it\"", "null")).is_none());
        assert!(test_program("not json").is_none());
    }
}
