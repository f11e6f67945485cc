//! Responses with an archive, with 304, or with an error.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use pko_core::program::Archive;

use super::archives::{ArchiveMissing, FoundArchive};

/// A signed URL never has another archive.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");
/// An unsigned URL has another archive after the Program is deleted and created again.
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");

/// An archive, or 304 if the client has it.
pub(super) fn found(found: FoundArchive, sealed: bool) -> Response {
    let (digest, mut answer) = match found {
        FoundArchive::Cached(digest) => (digest, StatusCode::NOT_MODIFIED.into_response()),
        FoundArchive::Archive(archive) => (archive.digest.clone(), file(archive)),
    };
    let headers = answer.headers_mut();
    headers.insert(
        header::CACHE_CONTROL,
        if sealed { IMMUTABLE } else { REVALIDATE },
    );
    if let Ok(tag) = HeaderValue::from_str(&tag(&digest)) {
        headers.insert(header::ETAG, tag);
    }
    answer
}

fn tag(digest: &str) -> String {
    format!("\"{digest}\"")
}

fn file(archive: Archive) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/gzip"),
        (
            header::CONTENT_DISPOSITION,
            "attachment; filename=project.tar.gz",
        ),
    ];
    let length = [(header::CONTENT_LENGTH, archive.bytes.len())];
    let length = length.map(|(name, length)| (name, length.to_string()));
    // Shared with the cache: clients that read slowly take no memory.
    let bytes = Bytes::from_owner(archive.bytes);
    (headers, length, Body::from(bytes)).into_response()
}

/// Whether the client has the archive with this digest. Weak tags count, because the bytes are
/// equal.
pub(super) fn is_cached(request: &HeaderMap, digest: &str) -> bool {
    let tag = tag(digest);
    let conditions = request.get_all(header::IF_NONE_MATCH).iter();
    let tags = conditions.filter_map(|condition| condition.to_str().ok());
    let mut tags = tags.flat_map(|tags| tags.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

pub(super) fn without_archive(missing: &ArchiveMissing) -> Response {
    let mut answer = (status(missing), missing.to_string()).into_response();
    if let ArchiveMissing::Busy(wait) = missing {
        let seconds = wait.as_secs().saturating_add(1);
        answer
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

fn status(missing: &ArchiveMissing) -> StatusCode {
    match missing {
        ArchiveMissing::Program(_) | ArchiveMissing::Generation { .. } => StatusCode::NOT_FOUND,
        ArchiveMissing::Undecodable(_) => StatusCode::UNPROCESSABLE_ENTITY,
        ArchiveMissing::Archive(_) => StatusCode::INTERNAL_SERVER_ERROR,
        ArchiveMissing::Processing(error) => {
            tracing::error!(%error, "Failed to make the archive of a Program");
            StatusCode::INTERNAL_SERVER_ERROR
        }
        ArchiveMissing::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
        ArchiveMissing::Unavailable(error) => {
            tracing::warn!(error = error.full_text(), "Failed to look up a Program");
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:abc";

    fn archive() -> FoundArchive {
        FoundArchive::Archive(Archive {
            bytes: (*b"bytes").into(),
            digest: DIGEST.to_owned(),
        })
    }

    #[test]
    fn archive_response_has_digest_and_length() {
        let answer = found(archive(), false);
        assert_eq!(answer.status(), StatusCode::OK);
        for (name, value) in [
            (header::CONTENT_TYPE, "application/gzip"),
            (
                header::CONTENT_DISPOSITION,
                "attachment; filename=project.tar.gz",
            ),
            (header::CONTENT_LENGTH, "5"),
            (header::ETAG, "\"sha256:abc\""),
            (header::CACHE_CONTROL, "no-cache"),
        ] {
            assert_eq!(answer.headers()[&name], value, "{name}");
        }
    }

    #[test]
    fn archive_response_is_immutable_if_signed() {
        let answer = found(archive(), true);
        assert_eq!(answer.headers()[header::CACHE_CONTROL], IMMUTABLE);
    }

    #[test]
    fn archive_response_is_304_for_a_cached_archive() {
        let answer = found(FoundArchive::Cached(DIGEST.to_owned()), false);
        assert_eq!(answer.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(answer.headers()[header::ETAG], "\"sha256:abc\"");
    }

    #[test]
    fn client_has_an_archive_if_it_names_its_tag() {
        for (condition, cached) in [
            (Some("\"sha256:abc\""), true),
            (Some("W/\"sha256:abc\""), true),
            (Some("\"other\", \"sha256:abc\""), true),
            (Some("*"), true),
            (Some("\"other\""), false),
            (Some("sha256:abc"), false),
            (Some(""), false),
            (None, false),
        ] {
            let mut request = HeaderMap::new();
            if let Some(condition) = condition {
                request.insert(header::IF_NONE_MATCH, HeaderValue::from_static(condition));
            }
            assert_eq!(is_cached(&request, DIGEST), cached, "{condition:?}");
        }
    }

    #[test]
    fn busy_response_says_when_to_try_again() {
        let answer = without_archive(&ArchiveMissing::Busy(std::time::Duration::from_millis(
            2500,
        )));
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.headers()[header::RETRY_AFTER], "3");
    }
}
