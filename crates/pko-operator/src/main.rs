//! `manager`: the operator. It watches Stacks, Workspaces, Updates and Programs, asks `pko-core`
//! what to do about each, and does it. Pulumi itself runs in workspaces, never in this process.
//!
//! ```text
//! args               flags and environment variables
//! start              builds the parts below and runs them until the process ends
//! leader_election    the Lease: one manager reconciles, the others stand by
//!
//! watch              one shared watch and cache for each kind; versions of referenced objects
//! controllers        per kind: what is read and written for the decisions of `pko-core`
//!   stack workspace update program
//! sources            where a Stack's program comes from: git repositories, Flux artifacts
//! workspace_runtime  how a workspace runs: as a pod, or as a process beside the manager
//! runs               the run queue, pod usage, watchers of runs, runs without an Update
//! agents             the gRPC client of workspace agents, its connections and tokens
//! manager_key        the key that signs those tokens
//!
//! server             HTTP: Programs, metrics, health
//! metrics            what is measured
//! telemetry          logs and traces
//! runtimes           the threads: one for probes and the Lease, others for the rest
//! api_client         the client of the API server: limits, time-outs, request metrics
//! ```
//!
//! Calls of the Kubernetes API are in `pko-kube`, decisions in `pko-core`.

mod agents;
mod api_client;
mod args;
mod controllers;
mod leader_election;
mod manager_key;
mod metrics;
mod runs;
mod runtimes;
mod server;
mod sources;
mod start;
mod telemetry;
mod watch;
mod workspace_runtime;

use tokio::runtime::Handle;

fn main() -> anyhow::Result<()> {
    let arguments = args::Arguments::of_process();
    let runtimes = runtimes::Runtimes::start()?;
    let liveness = runtimes.liveness.handle().clone();
    runtimes.main.block_on(run(arguments, liveness))
}

async fn run(arguments: args::Arguments, liveness: Handle) -> anyhow::Result<()> {
    let _traces = telemetry::start(&arguments)?;
    for warning in arguments.warnings() {
        tracing::warn!("{warning}");
    }
    Box::pin(start::run(arguments, liveness)).await
}
