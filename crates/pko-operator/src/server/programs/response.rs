//! Responses with an archive, with 304, or with an error.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use pko_core::program::Archive;

use super::archives::ArchiveMissing;

/// A signed URL never has another archive.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");
/// An unsigned URL has another archive after the Program is deleted and created again.
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");

/// An archive, or 304 if the client has it.
pub(super) fn with_archive(archive: Archive, sealed: bool, request: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", archive.digest);
    let known = is_cached(request, &tag);
    let mut answer = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        file(archive)
    };
    let headers = answer.headers_mut();
    headers.insert(
        header::CACHE_CONTROL,
        if sealed { IMMUTABLE } else { REVALIDATE },
    );
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    answer
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
    (headers, length, Body::from(archive.bytes)).into_response()
}

/// Whether the client has the archive with this tag. Weak tags count, because the bytes are equal.
fn is_cached(request: &HeaderMap, tag: &str) -> bool {
    let conditions = request.get_all(header::IF_NONE_MATCH).iter();
    let tags = conditions.filter_map(|condition| condition.to_str().ok());
    let mut tags = tags.flat_map(|tags| tags.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

pub(super) fn without_archive(missing: &ArchiveMissing) -> Response {
    let status = match missing {
        ArchiveMissing::Program(_) | ArchiveMissing::Generation { .. } => StatusCode::NOT_FOUND,
        ArchiveMissing::Undecodable(_) => StatusCode::UNPROCESSABLE_ENTITY,
        ArchiveMissing::Archive(_) => StatusCode::INTERNAL_SERVER_ERROR,
        ArchiveMissing::Unavailable(error) => {
            tracing::warn!(error = error.full_text(), "Failed to look up a Program");
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    (status, missing.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Archive {
        Archive {
            bytes: b"bytes".to_vec(),
            digest: "sha256:abc".to_owned(),
        }
    }

    fn asked_with(condition: Option<&'static str>) -> Response {
        let mut request = HeaderMap::new();
        if let Some(condition) = condition {
            request.insert(header::IF_NONE_MATCH, HeaderValue::from_static(condition));
        }
        with_archive(archive(), false, &request)
    }

    #[test]
    fn archive_response_has_digest_and_length() {
        let answer = asked_with(None);
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
        let answer = with_archive(archive(), true, &HeaderMap::new());
        assert_eq!(answer.headers()[header::CACHE_CONTROL], IMMUTABLE);
    }

    #[test]
    fn archive_response_is_304_for_a_known_tag() {
        for (condition, status) in [
            ("\"sha256:abc\"", StatusCode::NOT_MODIFIED),
            ("W/\"sha256:abc\"", StatusCode::NOT_MODIFIED),
            ("\"other\", \"sha256:abc\"", StatusCode::NOT_MODIFIED),
            ("*", StatusCode::NOT_MODIFIED),
            ("\"other\"", StatusCode::OK),
            ("sha256:abc", StatusCode::OK),
            ("", StatusCode::OK),
        ] {
            let answer = asked_with(Some(condition));
            assert_eq!(answer.status(), status, "{condition}");
            assert_eq!(answer.headers()[header::ETAG], "\"sha256:abc\"");
        }
    }
}
