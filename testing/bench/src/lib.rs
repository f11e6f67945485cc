//! Benchmarks of the manager, the agent and Stacks: `cargo xtask bench`.
//!
//! They measure our programs, or others with the same interface, such as upstream's.
#![expect(clippy::print_stdout, reason = "figures for a person")]
#![expect(missing_docs, reason = "internal crate: names and comments suffice")]

mod agent;
mod fixtures;
mod manager;
mod process;
mod report;
mod stacks;

use std::path::PathBuf;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArguments {
    #[command(subcommand)]
    subject: Option<Subject>,
    /// Without a subject: the cost and the speed of Stacks
    #[command(flatten)]
    stacks: stacks::StacksArguments,
}

#[derive(clap::Subcommand)]
enum Subject {
    /// The workspace agent: memory, start time, size, and calls of `pulumi`
    Agent(AgentArguments),
    /// The manager: memory, requests and processor time at rest, and failover time
    Manager(ManagerArguments),
}

#[derive(clap::Args)]
struct AgentArguments {
    /// Another agent, such as upstream's
    #[arg(long)]
    agent: Option<PathBuf>,
    /// The number of updates to run
    #[arg(long, default_value_t = 10_000)]
    runs: u32,
    /// Also write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ManagerArguments {
    /// A manager that is already built; by default, ours is built in release mode
    #[arg(long)]
    manager: Option<PathBuf>,
    /// Seconds to wait before each measurement
    #[arg(long, default_value_t = 30)]
    settle: u32,
    /// Seconds for which requests and processor time are counted
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    rest: u32,
    /// The number of Stacks at rest
    #[arg(long, default_value_t = 200)]
    stacks: u32,
    /// The number of unrelated pods, and of unrelated Secrets
    #[arg(long, default_value_t = 1_000)]
    foreign: u32,
    /// Also write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Measures, prints the figures and writes them as JSON on request.
pub async fn run(arguments: &BenchArguments) -> anyhow::Result<()> {
    let (figures, json) = match &arguments.subject {
        Some(Subject::Agent(arguments)) => (
            agent::measure(arguments.agent.as_deref(), arguments.runs).await?,
            &arguments.json,
        ),
        Some(Subject::Manager(arguments)) => (manager::measure(arguments).await?, &arguments.json),
        None => (
            Box::pin(stacks::measure(&arguments.stacks)).await?,
            &arguments.stacks.json,
        ),
    };
    report::print(&figures);
    match json {
        Some(file) => report::write(&figures, file),
        None => Ok(()),
    }
}
