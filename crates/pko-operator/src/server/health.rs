//! `/healthz`: the process runs. `/readyz`: its caches are filled.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{Router, http::StatusCode, routing::get};

#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness(Arc<AtomicBool>);

impl Readiness {
    pub(crate) fn mark_reached(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn status(&self) -> (StatusCode, &'static str) {
        if self.0.load(Ordering::Acquire) {
            (StatusCode::OK, "ok")
        } else {
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "the caches are not synced yet",
            )
        }
    }
}

pub(crate) fn routes(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(move || async move { readiness.status() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readyz_is_ok_only_when_ready() {
        let readiness = Readiness::default();
        assert_eq!(readiness.status().0, StatusCode::SERVICE_UNAVAILABLE);
        readiness.mark_reached();
        assert_eq!(readiness.status(), (StatusCode::OK, "ok"));
    }
}
