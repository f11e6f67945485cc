//! Builds the parts of the manager, runs them, and ends with the first of them.

mod context_builder;
mod housekeeping;
mod servers;
mod workspace_folder;

use std::sync::Arc;

use kube::{Client, Config};
use pko_api::names::events;
use pko_auth::token::SigningKey;
use pko_core::leadership::LeaseTiming;
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
};

use self::{
    context_builder::ContextBuilder, servers::Listeners, workspace_folder::WorkspaceFolder,
};
use crate::{
    api_client,
    args::{Arguments, WorkspaceRuntimeKind},
    controllers::{self, Context},
    leader_election::{LeaderElection, LeaderStatus},
    manager_key,
    metrics::{Metrics, ObjectMetrics},
    server::health::Readiness,
    watch::{
        shared::WatchConfig,
        streams::{SharedWatches, TriggerStreams, Triggers},
    },
};

/// Runs the manager until it is signalled, or loses its Lease. Runs in workspaces continue without
/// it. Probes and the Lease are on the `liveness` runtime.
pub(crate) async fn run(arguments: Arguments, liveness: Handle) -> anyhow::Result<()> {
    let manager = Box::pin(Manager::build(arguments, &liveness)).await?;
    Box::pin(manager.run()).await
}

struct Manager {
    arguments: Arguments,
    listeners: Listeners,
    election: Option<LeaderElection>,
    leader: LeaderStatus,
    watches: SharedWatches,
    triggers: Triggers,
    trigger_streams: TriggerStreams,
    context: Arc<Context>,
    /// Locked as long as the manager runs.
    _folder: Option<WorkspaceFolder>,
}

impl Manager {
    async fn build(arguments: Arguments, liveness: &Handle) -> anyhow::Result<Self> {
        let timing = arguments.election()?;
        let metrics = Arc::new(Metrics::new()?);
        let config = api_client::config(&arguments).await?;
        let client = api_client::client(config.clone(), &arguments, &metrics)?;
        let listeners = Listeners::bind(&arguments, liveness).await?;
        let (key, folder) = key_and_folder(&arguments, &client).await?;

        let start = |timing| start_election(timing, config, &arguments, &metrics, liveness);
        let election = timing.map(start).transpose()?;
        let leader = election
            .as_ref()
            .map_or_else(LeaderStatus::always, LeaderElection::leader);
        let config = WatchConfig::new(&client, &leader, arguments.watched_namespaces());
        let watches = SharedWatches::new(&config, folder.is_none(), arguments.watch_secrets);
        let (triggers, trigger_streams) = Triggers::new();
        let builder = ContextBuilder {
            arguments: &arguments,
            client,
            metrics,
            key,
            folder: folder.as_ref(),
            program_host: arguments.advertised(listeners.programs.local_addr()?),
            watches: &watches,
            triggers: &triggers,
        };
        let context = Arc::new(builder.build()?);
        Ok(Self {
            arguments,
            listeners,
            election,
            leader,
            watches,
            triggers,
            trigger_streams,
            context,
            _folder: folder,
        })
    }

    async fn run(self) -> anyhow::Result<()> {
        let Self {
            arguments,
            listeners,
            mut election,
            leader,
            context,
            ..
        } = self;
        log_start(&arguments, &context.program_urls.host);
        let workers = arguments.concurrency();
        register_metrics(&context, workers, leader.clone())?;
        let readiness = Readiness::default();
        let controllers = controllers::run(
            self.watches,
            self.trigger_streams,
            self.triggers.stacks,
            workers,
            context.clone(),
        );
        tokio::select! {
            () = controllers => {}
            () = housekeeping::run(context.clone(), readiness.clone(), leader) => {}
            () = lost_lease(election.as_mut()) => {
                anyhow::bail!("lost the Lease to another manager, or could not renew it");
            }
            served = listeners.serve(&arguments, &context, readiness) => served?,
            () = shutdown_signal() => tracing::info!("Manager received a signal and stops"),
        }
        if let Some(election) = election {
            election.step_down().await;
        }
        Ok(())
    }
}

/// The Lease has a client of its own: the connections of a client run where it was made.
fn start_election(
    timing: LeaseTiming,
    config: Config,
    arguments: &Arguments,
    metrics: &Arc<Metrics>,
    liveness: &Handle,
) -> anyhow::Result<LeaderElection> {
    let _entered = liveness.enter();
    let client = api_client::client(config, arguments, metrics)?;
    let namespace = arguments.namespace.clone();
    Ok(LeaderElection::start(client, namespace, timing))
}

/// The manager's key, and the folder of process workspaces if they are processes.
async fn key_and_folder(
    arguments: &Arguments,
    client: &Client,
) -> anyhow::Result<(SigningKey, Option<WorkspaceFolder>)> {
    match arguments.workspace_runtime {
        WorkspaceRuntimeKind::Pod => {
            let key = manager_key::in_cluster(client, &arguments.namespace).await?;
            Ok((key, None))
        }
        WorkspaceRuntimeKind::Process => {
            let folder = WorkspaceFolder::claim(&arguments.workspace_dir, client).await?;
            let key = manager_key::in_folder(&folder.path)?;
            Ok((key, Some(folder)))
        }
    }
}

fn log_start(arguments: &Arguments, program_host: &str) {
    let images = arguments.agent_image_settings();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        advertised = program_host,
        sealed = arguments.program_fs_sealed,
        workspace_runtime = ?arguments.workspace_runtime,
        workspace_address = ?arguments.workspace_address,
        workspace_localhost = arguments.workspace_localhost(),
        idle_timeout = ?arguments.idle_timeout(),
        run_timeout = ?arguments.run_timeout(),
        git = ?arguments.git_settings(),
        namespaces = ?arguments.watched_namespaces(),
        watch_secrets = arguments.watch_secrets,
        agent_image = images.agent_image,
        agent_image_pull_policy = images.agent_image_pull_policy,
        max_untar_size = images.max_untar_size,
        "Manager started"
    );
}

fn register_metrics(
    context: &Arc<Context>,
    workers: u16,
    leader: LeaderStatus,
) -> anyhow::Result<()> {
    let metrics = &context.metrics;
    for controller in [
        events::STACK_CONTROLLER,
        events::WORKSPACE_CONTROLLER,
        events::UPDATE_CONTROLLER,
        events::PROGRAM_CONTROLLER,
    ] {
        metrics.register_controller(controller, workers);
    }
    // Weak, because the context holds the metrics.
    let weak = Arc::downgrade(context);
    let runs = move || {
        weak.upgrade()
            .map(|context| context.runs.queue.counts())
            .unwrap_or_default()
    };
    let (stacks, programs) = (
        context.caches.stacks.clone(),
        context.caches.programs.clone(),
    );
    let is_leader = move || leader.is_leader();
    metrics.add(ObjectMetrics::new(stacks, programs, runs, is_leader)?)?;
    Ok(())
}

/// Waits until this manager has lost its Lease; forever without leader election.
async fn lost_lease(election: Option<&mut LeaderElection>) {
    match election {
        Some(election) => election.lost().await,
        None => std::future::pending().await,
    }
}

/// Waits for SIGTERM or SIGINT.
async fn shutdown_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
}
