//! Programs as archives over HTTP: what the status of a Program points to. Every replica serves.

mod archives;
mod response;
mod url_signer;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Redirect, Response},
    routing::any,
};

pub(crate) use archives::Shelf;
pub(crate) use url_signer::Seals;

use crate::server::bounded::Limits;

/// Enough for an archive of a megabyte over a slow network, and for every workspace of a cluster that starts.
pub(crate) const LIMITS: Limits = Limits {
    head: Duration::from_secs(5),
    request: Duration::from_mins(1),
    connections: 256,
};

/// The routes under `/programs/`, with upstream's answers.
pub(crate) fn routes(shelf: Shelf) -> Router {
    let nothing = || async { (StatusCode::BAD_REQUEST, "Program identifier is required.") };
    Router::new()
        .route(
            "/programs",
            any(|| async { Redirect::temporary("/programs/") }),
        )
        .route("/programs/", any(nothing))
        .route("/programs/{*identifier}", any(serve))
        .with_state(Arc::new(shelf))
}

async fn serve(
    State(shelf): State<Arc<Shelf>>,
    Path(identifier): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(wanted) = shelf.wanted(&identifier) else {
        let text = "invalid program identifier, unable to locate Program";
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    match shelf.find(&wanted).await {
        Ok(archive) => response::with_archive(archive, shelf.is_sealed(), &headers),
        Err(missing) => response::without_archive(&missing),
    }
}
