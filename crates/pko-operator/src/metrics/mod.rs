//! Metrics, under upstream's names where it has one.
//!
//! Metrics of objects are computed from the caches at each scrape ([`objects`]): they can't drift,
//! and their series end with the objects. Measurements are kept here.

mod objects;
mod process;
#[cfg(test)]
mod tests;

use std::time::Duration;

use prometheus::{
    HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder,
    core::{Collector, GenericGauge},
};

pub(crate) use objects::ObjectMetrics;

/// Those of controller-runtime, for its dashboards.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];
/// From a reconcile that reads a cache to one that waits for an agent.
const DECISION_BUCKETS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.0, 10.0, 60.0];
/// From a run without changes to one that creates a cluster.
const LONG_BUCKETS: [f64; 12] = [
    0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 7200.0,
];

pub(crate) struct Metrics {
    registry: Registry,
    api_requests: IntCounterVec,
    reconciles: IntCounterVec,
    reconcile_errors: IntCounterVec,
    reconcile_panics: IntCounterVec,
    reconcile_time: HistogramVec,
    active_workers: IntGaugeVec,
    max_workers: IntGaugeVec,
    passes: HistogramVec,
    queue_wait: HistogramVec,
    workspace_start: HistogramVec,
    install: HistogramVec,
    run: HistogramVec,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconcileOutcome {
    /// It waits for a change.
    Done,
    /// It is requeued.
    Requeued,
    Failed,
    Panicked,
}

impl ReconcileOutcome {
    /// The labels of controller-runtime.
    fn result(self) -> &'static str {
        match self {
            Self::Done => "success",
            Self::Requeued => "requeue_after",
            Self::Failed | Self::Panicked => "error",
        }
    }
}

impl Metrics {
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        registry.register(Box::new(process::ProcessMetrics::new()?))?;
        let controller = &["controller"];
        let histogram = |name, help, buckets: &[f64], labels: &[&str]| {
            let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
            registered(&registry, HistogramVec::new(options, labels)?)
        };
        let counter = |name, help, labels: &[&str]| {
            registered(
                &registry,
                IntCounterVec::new(Opts::new(name, help), labels)?,
            )
        };
        let gauge = |name, help| {
            registered(
                &registry,
                IntGaugeVec::new(Opts::new(name, help), controller)?,
            )
        };
        Ok(Self {
            api_requests: counter(
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
                &["code", "host", "method"],
            )?,
            reconciles: counter(
                "controller_runtime_reconcile_total",
                "Total number of reconciliations per controller",
                &["controller", "result"],
            )?,
            reconcile_errors: counter(
                "controller_runtime_reconcile_errors_total",
                "Total number of reconciliation errors per controller",
                controller,
            )?,
            reconcile_panics: counter(
                "controller_runtime_reconcile_panics_total",
                "Total number of reconciliation panics per controller",
                controller,
            )?,
            reconcile_time: histogram(
                "controller_runtime_reconcile_time_seconds",
                "Length of time per reconciliation per controller",
                &RECONCILE_BUCKETS,
                controller,
            )?,
            active_workers: gauge(
                "controller_runtime_active_workers",
                "Number of currently used workers per controller",
            )?,
            max_workers: gauge(
                "controller_runtime_max_concurrent_reconciles",
                "Maximum number of concurrent reconciles per controller",
            )?,
            passes: histogram(
                "pko_reconcile_seconds",
                "Time per reconcile, by kind and deciding rule",
                &DECISION_BUCKETS,
                &["kind", "rule"],
            )?,
            queue_wait: histogram(
                "pko_run_queue_wait_seconds",
                "Time that a run waited in the queue",
                &LONG_BUCKETS,
                &[],
            )?,
            workspace_start: histogram(
                "pko_workspace_start_seconds",
                "Time until a workspace was ready",
                &LONG_BUCKETS,
                &[],
            )?,
            install: histogram(
                "pko_workspace_install_seconds",
                "Time to install the packages of a program, by result",
                &LONG_BUCKETS,
                &["result"],
            )?,
            run: histogram(
                "pko_run_seconds",
                "Duration of runs, by type and result",
                &LONG_BUCKETS,
                &["type", "result"],
            )?,
            registry,
        })
    }

    /// Counts a request by its status code, if there was a response.
    pub(crate) fn api_request(&self, host: &str, method: &str, code: Option<u16>) {
        // The label of client-go.
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = [code.as_str(), host, method];
        self.api_requests.with_label_values(&labels).inc();
    }

    /// Creates the series of a controller before its first reconcile.
    pub(crate) fn register_controller(&self, controller: &str, workers: u16) {
        let labels = &[controller];
        self.max_workers
            .with_label_values(labels)
            .set(workers.into());
        self.active_workers.with_label_values(labels);
        self.reconcile_errors.with_label_values(labels);
        self.reconcile_panics.with_label_values(labels);
        for result in ["success", "error", "requeue", "requeue_after"] {
            self.reconciles.with_label_values(&[controller, result]);
        }
    }

    /// Counts an active worker until the result is dropped.
    pub(crate) fn reconcile_started(&self, controller: &str) -> ActiveWorker {
        let workers = self.active_workers.with_label_values(&[controller]);
        workers.inc();
        ActiveWorker(workers)
    }

    /// Records a reconcile, and the rule that decided it, if any.
    pub(crate) fn reconcile_ended(
        &self,
        controller: &str,
        kind: &str,
        rule: Option<&str>,
        end: ReconcileOutcome,
        took: Duration,
    ) {
        let (labels, seconds) = (&[controller], took.as_secs_f64());
        self.reconcile_time
            .with_label_values(labels)
            .observe(seconds);
        self.reconciles
            .with_label_values(&[controller, end.result()])
            .inc();
        if matches!(end, ReconcileOutcome::Failed | ReconcileOutcome::Panicked) {
            self.reconcile_errors.with_label_values(labels).inc();
        }
        if end == ReconcileOutcome::Panicked {
            self.reconcile_panics.with_label_values(labels).inc();
        }
        if let Some(rule) = rule {
            self.passes
                .with_label_values(&[kind, rule])
                .observe(seconds);
        }
    }

    /// A run was admitted.
    pub(crate) fn queue_wait(&self, waited: Duration) {
        let histogram = self.queue_wait.with_label_values::<&str>(&[]);
        histogram.observe(waited.as_secs_f64());
    }

    /// A workspace has become ready.
    pub(crate) fn workspace_started(&self, seconds: f64) {
        let histogram = self.workspace_start.with_label_values::<&str>(&[]);
        histogram.observe(seconds);
    }

    /// An installation has ended.
    pub(crate) fn installed(&self, well: bool, took: Duration) {
        let result = if well { "succeeded" } else { "failed" };
        self.install
            .with_label_values(&[result])
            .observe(took.as_secs_f64());
    }

    pub(crate) fn run_ended(&self, operation: &str, result: &str, seconds: f64) {
        self.run
            .with_label_values(&[operation, result])
            .observe(seconds);
    }

    /// Adds metrics that are computed at each scrape.
    pub(crate) fn add(&self, computed: impl Collector + 'static) -> Result<(), prometheus::Error> {
        self.registry.register(Box::new(computed))
    }

    /// All metrics in Prometheus' text format.
    pub(crate) fn text(&self) -> Result<String, prometheus::Error> {
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

/// A worker that is active until this is dropped.
pub(crate) struct ActiveWorker(GenericGauge<prometheus::core::AtomicI64>);

impl Drop for ActiveWorker {
    fn drop(&mut self) {
        self.0.dec();
    }
}
