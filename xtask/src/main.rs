//! The commands for working on a checkout: `cargo xtask --help`.
#![expect(
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a command line talks to a person"
)]

mod cluster;
mod fuzz;
mod generate;
mod image;
mod quickstart;
mod test;

use std::process::ExitCode;

use clap::Parser;

/// Build, test, run and measure the operator from a checkout
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Run the whole system on this machine, with one Stack
    Quickstart(quickstart::QuickstartArguments),
    /// Run the tests and print `N passed, M failed, K skipped`
    Test(test::TestArguments),
    /// Run a real cluster with one node: up, run, load, down
    Cluster(cluster::ClusterArguments),
    /// Run benchmarks and print the figures
    Bench(pko_bench::BenchArguments),
    /// Build OCI images of the operator and of a workspace, without Docker
    Image(image::ImageArguments),
    /// Generate files from the source: CRDs, manifests, and the Kubernetes types in them
    Generate(generate::GenerateArguments),
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
        Command::Bench(arguments) => pko_bench::run(&arguments).await,
        Command::Image(arguments) => image::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments).await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;
    use pko_testkit::checkout::cargo;

    use super::*;

    /// The packages of a build with their features, one per line.
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
        // Workspace members are always built with all their features.
        lines.filter(|line| !line.contains(" (/")).collect()
    }

    #[test]
    fn features_are_unified() {
        let ours = packages(&["--package", "xtask", "--edges", "normal,build"]);
        let all = packages(&["--workspace", "--edges", "normal,build,dev"]);
        let other: Vec<&String> = ours.difference(&all).collect();
        assert!(
            other.is_empty(),
            "other packages enable more features of these, so they are compiled twice; \
             enable them in xtask/Cargo.toml too: {other:#?}"
        );
    }

    #[test]
    fn command_line_is_valid() {
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
