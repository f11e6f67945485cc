//! `cargo xtask bench`: figures, for our programs or for others with the same interface.

mod agent;
mod crowd;
mod manager;
mod process;
mod report;
mod stacks;

use std::path::PathBuf;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    subject: Option<Subject>,
    /// Without a subject: what Stacks cost, and how fast they are
    #[command(flatten)]
    stacks: stacks::StacksArguments,
}

#[derive(clap::Subcommand)]
enum Subject {
    /// The workspace agent: memory, start, size, and how often it calls `pulumi`
    Agent(AgentArguments),
    /// The manager: memory, requests and processor time at rest, and how fast another one takes over
    Manager(ManagerArguments),
}

#[derive(clap::Args)]
struct AgentArguments {
    /// Another agent than ours, such as upstream's
    #[arg(long)]
    agent: Option<PathBuf>,
    /// How many updates to run
    #[arg(long, default_value_t = 10_000)]
    runs: u32,
    /// Also write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(clap::Args)]
struct ManagerArguments {
    /// A manager that is built already; without it, ours is built as it is shipped
    #[arg(long)]
    manager: Option<PathBuf>,
    /// How many seconds it gets to settle before each measurement
    #[arg(long, default_value_t = 30)]
    settle: u32,
    /// For how many seconds requests and processor time are counted
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    rest: u32,
    /// How many Stacks are at rest then
    #[arg(long, default_value_t = 200)]
    stacks: u32,
    /// How many pods, and how many Secrets, there are that are none of its business
    #[arg(long, default_value_t = 1_000)]
    foreign: u32,
    /// Also write the figures as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
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
