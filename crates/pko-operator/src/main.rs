//! `manager`: the operator.

mod agent_client;
mod api_client;
mod args;
mod bounded_server;
mod controller;
mod health;
mod leadership;
mod manager_key;
mod metrics;
mod occupancy;
mod place;
mod preparation;
mod program_server;
mod run;
mod seals;
mod sources;
mod telemetry;
mod turns;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = args::Arguments::of_process();
    let _traces = telemetry::start(&arguments)?;
    for warning in arguments.warnings() {
        tracing::warn!("{warning}");
    }
    Box::pin(run::run(arguments)).await
}
