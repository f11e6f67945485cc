//! The listeners of the manager, and the servers on them.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::{net::TcpListener, runtime::Handle};

use crate::{
    args::{Arguments, ListenAddress},
    controllers::Context,
    server::{
        bounded,
        health::{self, Readiness},
        metrics::{self, ClusterAuthorizer, MetricsAuth},
        programs::{self, AbsentObjects, ProgramArchives},
    },
};

/// Bound before anything else starts, so that a port in use fails the start.
pub(super) struct Listeners {
    pub(super) programs: TcpListener,
    health: Option<TcpListener>,
    metrics: Option<TcpListener>,
    /// Where the health server runs.
    liveness: Handle,
}

impl Listeners {
    pub(super) async fn bind(arguments: &Arguments, liveness: &Handle) -> anyhow::Result<Self> {
        let programs = bind("--program-fs-addr", &arguments.program_fs_addr).await?;
        let health = arguments.health_probe_bind_address.clone();
        let health =
            liveness.spawn(async move { bind("--health-probe-bind-address", &health).await });
        Ok(Self {
            programs: programs.context(
                "--program-fs-addr is required: workspaces fetch Programs from this address",
            )?,
            health: health.await??,
            metrics: bind("--metrics-bind-address", &arguments.metrics_bind_address).await?,
            liveness: liveness.clone(),
        })
    }

    /// Serves until one of the servers ends.
    pub(super) async fn serve(
        self,
        arguments: &Arguments,
        context: &Context,
        readiness: Readiness,
    ) -> anyhow::Result<()> {
        let archives = ProgramArchives {
            programs: context.caches.programs.clone(),
            reads: context.client.clone(),
            signer: context.program_urls.signer.clone(),
            namespaces: arguments.watched_namespaces(),
            store: Arc::clone(&context.program_archives),
            absent: AbsentObjects::default(),
        };
        let programs = programs::routes(archives);
        let health = self.liveness.spawn(serve_health(self.health, readiness));
        tokio::select! {
            () = bounded::serve(self.programs, programs, programs::LIMITS) => Ok(()),
            served = health => served?.context("the health server ended"),
            served = serve_metrics(self.metrics, arguments, context) => served.context("the metrics server ended"),
        }
    }
}

async fn bind(flag: &str, address: &ListenAddress) -> anyhow::Result<Option<TcpListener>> {
    let listener = address.bind().await;
    listener.with_context(|| format!("{flag} {address}"))
}

async fn serve_health(listener: Option<TcpListener>, readiness: Readiness) -> anyhow::Result<()> {
    match listener {
        Some(listener) => Ok(axum::serve(listener, health::routes(readiness)).await?),
        None => std::future::pending().await,
    }
}

async fn serve_metrics(
    listener: Option<TcpListener>,
    arguments: &Arguments,
    context: &Context,
) -> anyhow::Result<()> {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    let auth = if arguments.metrics_secure {
        MetricsAuth::Token {
            authorizer: ClusterAuthorizer::new(context.client.clone()),
            http2: arguments.enable_http2,
        }
    } else {
        MetricsAuth::None
    };
    metrics::serve(listener, Arc::clone(&context.metrics), auth).await
}
