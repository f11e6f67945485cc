//! `manager`: the operator.

mod agent_client;
mod args;
mod controller;
mod health;
mod leadership;
mod manager_key;
mod occupancy;
mod place;
mod program_server;
mod run;
mod telemetry;
mod turns;

use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = args::Arguments::parse();
    telemetry::start(&arguments.log_level)?;
    Box::pin(run::run(arguments)).await
}
