//! The project's front door: everything that one does with a checkout is a command here.
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a command line talks to a person"
)]

mod bench;
mod cluster;
mod fuzz;
mod generate;
mod image;
mod progress;
mod quickstart;
mod ready;
mod test;

use std::{
    path::{Path, PathBuf},
    process::{self, ExitCode},
};

use anyhow::Context;
use clap::Parser;

/// What one does with a checkout of the operator
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Show the whole system on this machine, with one Stack
    Quickstart(quickstart::Arguments),
    /// Run the tests and print `N passed, M failed, K skipped`
    Test(test::Arguments),
    /// A real cluster with one node, to try things by hand: up, run, load, down
    Cluster(cluster::Arguments),
    /// Measure, and print the figures
    Bench(bench::Arguments),
    /// Make OCI images of the operator and of a workspace, without Docker
    Image(image::Arguments),
    /// Write the files that are made from the source: the CRDs, and the types of Kubernetes in them
    Generate(generate::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Command::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Quickstart(arguments) => quickstart::run(&arguments).await,
        Command::Test(arguments) => test::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments).await,
        Command::Bench(arguments) => bench::run(&arguments).await,
        Command::Image(arguments) => image::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments).await,
    }
}

/// Cargo, in the checkout. The variables that `cargo run` set for this program are not for what it builds: one of our
/// libraries would be built anew at each change of them.
fn cargo() -> process::Command {
    let mut command = process::Command::new(env!("CARGO"));
    command.current_dir(checkout());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Where cargo puts what it builds: two folders above this program.
fn target_folder() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe()?;
    let folder = this.ancestors().nth(2).map(Path::to_owned);
    folder.context("this program is in no folder")
}

/// Where cargo puts our programs: beside this one.
fn programs_folder() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe()?;
    let folder = this.parent().map(Path::to_owned);
    folder.context("this program is in no folder")
}

/// The checkout that this binary was built from.
fn checkout() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;

    /// The packages of a build with their features, one a line.
    fn packages(arguments: &[&str]) -> BTreeSet<String> {
        let mut command = cargo();
        command.args([
            "tree", "--locked", "--prefix", "none", "--format", "{p} {f}",
        ]);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text
            .lines()
            .map(|line| line.trim_end_matches(" (*)").to_owned());
        // Of those in the checkout, each is built with all that it has
        lines.filter(|line| !line.contains(" (/")).collect()
    }

    #[test]
    fn one_set_of_features() {
        let ours = packages(&["--package", "xtask", "--edges", "normal,build"]);
        let all = packages(&["--workspace", "--edges", "normal,build,dev"]);
        let other: Vec<&String> = ours.difference(&all).collect();
        assert!(
            other.is_empty(),
            "other packages turn on more features of these, which are compiled twice then; \
             turn them on in xtask/Cargo.toml, too: {other:#?}"
        );
    }

    #[test]
    fn the_command_line_is_sound() {
        Command::command().debug_assert();
        for line in [
            "bench --json file --part git",
            "bench agent --runs 1",
            "bench manager",
            "image --programs folder",
            "image --arch arm64 --profile release --tag v1 --output folder",
            "cluster up",
            "cluster down --name other",
            "cluster run -- kubectl get pods -A",
            "cluster load one.tar two.tar",
        ] {
            let words = ["xtask"].into_iter().chain(line.split(' '));
            assert!(Command::try_parse_from(words).is_ok(), "{line}");
        }
    }
}
