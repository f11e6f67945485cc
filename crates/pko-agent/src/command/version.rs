//! `agent version`.

/// Logs the version, as upstream's agent does.
pub(crate) fn run() {
    tracing::info!(
        version = concat!("v", env!("CARGO_PKG_VERSION")),
        "Pulumi Kubernetes Agent"
    );
}
