//! `/healthz`: the process is there. `/readyz`: it has seen the cluster and can work.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{Router, http::StatusCode, routing::get};

/// Whether the manager can work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// Says that it can.
    pub(crate) fn is_reached(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn status(&self) -> (StatusCode, &'static str) {
        if self.0.load(Ordering::Acquire) {
            (StatusCode::OK, "ok")
        } else {
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "the caches are not filled yet",
            )
        }
    }
}

/// The probes' routes.
pub(crate) fn routes(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(move || async move { readiness.status() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_said_only_once_it_is_so() {
        let readiness = Readiness::default();
        assert_eq!(readiness.status().0, StatusCode::SERVICE_UNAVAILABLE);
        readiness.is_reached();
        assert_eq!(readiness.status(), (StatusCode::OK, "ok"));
    }
}
