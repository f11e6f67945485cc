//! Serves Programs as archives, at the URLs in their status. Every replica serves.

mod archives;
mod identifier;
mod reads;
mod response;
mod store;
#[cfg(test)]
mod tests;
mod url_signer;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Redirect, Response},
    routing::any,
};
use pko_api::Program;
use pko_core::program::ProgramAddresses;

pub(crate) use archives::{AbsentObjects, ProgramArchives};
pub(crate) use store::{ArchiveStore, ProcessingError, process};
pub(crate) use url_signer::UrlSigner;

use self::{identifier::ArchiveRequest, reads::ProgramReads};
use crate::server::{addresses::AddressLimits, bounded::ConnectionLimits};

/// Where workspaces fetch Programs.
pub(crate) struct ProgramUrls {
    /// `host:port` of the server.
    pub(crate) host: String,
    /// Set if URLs must not be guessable.
    pub(crate) signer: Option<Arc<UrlSigner>>,
}

impl ProgramAddresses for ProgramUrls {
    fn advertised(&self) -> &str {
        &self.host
    }

    fn seal(&self, program: &Program, generation: i64) -> Option<String> {
        let signer = self.signer.as_ref()?;
        Some(signer.sign(&program.metadata, generation))
    }
}

/// Enough for an archive of a megabyte over a slow network, and for all workspaces of a cluster
/// that starts, also if all of them have one address: 320 requests a second.
pub(crate) const LIMITS: ConnectionLimits = ConnectionLimits {
    head: Duration::from_secs(5),
    request: Duration::from_mins(1),
    connections: 1024,
    address: AddressLimits {
        open: 128,
        active: 16,
        pause: Duration::from_millis(50),
    },
};

/// Responses are upstream's.
pub(crate) fn routes<R: ProgramReads>(archives: ProgramArchives<R>) -> Router {
    let missing = || async { (StatusCode::BAD_REQUEST, "Program identifier is required.") };
    Router::new()
        .route(
            "/programs",
            any(|| async { Redirect::temporary("/programs/") }),
        )
        .route("/programs/", any(missing))
        .route("/programs/{*identifier}", any(serve::<R>))
        .with_state(Arc::new(archives))
}

async fn serve<R: ProgramReads>(
    State(archives): State<Arc<ProgramArchives<R>>>,
    Path(identifier): Path<String>,
    headers: HeaderMap,
) -> Response {
    let Some(wanted) = ArchiveRequest::parse(&identifier, archives.is_sealed()) else {
        let text = "invalid program identifier, unable to locate Program";
        return (StatusCode::BAD_REQUEST, text).into_response();
    };
    let is_cached = |digest: &str| response::is_cached(&headers, digest);
    match archives.find(&wanted, is_cached).await {
        Ok(found) => response::found(found, archives.is_sealed()),
        Err(missing) => response::without_archive(&missing),
    }
}
