//! `cargo xtask bench`: figures, for our programs or for others with the same interface.

mod agent;
mod process;
mod report;

use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(clap::Subcommand)]
enum Subject {
    /// The workspace agent: memory, start, size, and how often it calls `pulumi`
    Agent(AgentArguments),
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

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let Subject::Agent(arguments) = &arguments.subject;
    let figures = agent::measure(arguments.agent.as_deref(), arguments.runs).await?;
    report::print(&figures);
    match &arguments.json {
        Some(file) => report::write(&figures, file),
        None => Ok(()),
    }
}
