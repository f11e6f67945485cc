//! `agent version`.

/// Upstream's log line.
pub(crate) fn run() {
    tracing::info!(
        version = concat!("v", env!("CARGO_PKG_VERSION")),
        "Pulumi Kubernetes Agent"
    );
}
