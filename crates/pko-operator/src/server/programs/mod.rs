//! Serves Programs as archives, at the URLs in their status. Every replica serves.

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

pub(crate) use archives::ProgramArchives;
pub(crate) use url_signer::UrlSigner;

use crate::server::bounded::ConnectionLimits;

/// Where workspaces fetch Programs.
pub(crate) struct ProgramUrls {
    /// `host:port` of the server.
    pub(crate) host: String,
    /// Set if URLs must not be guessable.
    pub(crate) signer: Option<Arc<UrlSigner>>,
}

/// Enough for an archive of a megabyte over a slow network, and for all workspaces of a cluster
/// that starts.
pub(crate) const LIMITS: ConnectionLimits = ConnectionLimits {
    head: Duration::from_secs(5),
    request: Duration::from_mins(1),
    connections: 256,
};

/// Responses are upstream's.
pub(crate) fn routes(archives: ProgramArchives) -> Router {
    let missing = || async { (StatusCode::BAD_REQUEST, "Program identifier is required.") };
    Router::new()
        .route(
            "/programs",
            any(|| async { Redirect::temporary("/programs/") }),
        )
        .route("/programs/", any(missing))
        .route("/programs/{*identifier}", any(serve))
        .with_state(Arc::new(archives))
}

async fn serve(
    State(archives): State<Arc<ProgramArchives>>,
    Path(identifier): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(wanted) = archives.wanted(&identifier) else {
        let text = "invalid program identifier, unable to locate Program";
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    match archives.find(&wanted).await {
        Ok(archive) => response::with_archive(archive, archives.is_sealed(), &headers),
        Err(missing) => response::without_archive(&missing),
    }
}
