//! Answers: an archive, the word that it is the same as before, or why there is none. Pure.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use pko_core::program::Archive;

use super::archives::Missing;

/// An address with a seal is of one archive for ever.
const FOR_EVER: HeaderValue = HeaderValue::from_static("private, max-age=31536000, immutable");
/// One without may be of another archive once the Program is deleted and made anew: whoever keeps it, asks.
const ASK: HeaderValue = HeaderValue::from_static("no-cache");

/// The answer with an archive, or that it is known already.
pub(super) fn with_archive(archive: Archive, sealed: bool, request: &HeaderMap) -> Response {
    let tag = format!("\"{}\"", archive.digest);
    let known = is_known(request, &tag);
    let mut answer = if known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        file(archive)
    };
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, if sealed { FOR_EVER } else { ASK });
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

/// Whether who asks has the archive with this tag. Weak tags count: the bytes are the same all the same.
fn is_known(request: &HeaderMap, tag: &str) -> bool {
    let conditions = request.get_all(header::IF_NONE_MATCH).iter();
    let tags = conditions.filter_map(|condition| condition.to_str().ok());
    let mut tags = tags.flat_map(|tags| tags.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// The answer without one.
pub(super) fn without_archive(missing: &Missing) -> Response {
    let status = match missing {
        Missing::Program(_) | Missing::Generation { .. } => StatusCode::NOT_FOUND,
        Missing::Undecodable(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Missing::Archive(_) => StatusCode::INTERNAL_SERVER_ERROR,
        Missing::Unavailable(error) => {
            tracing::warn!(error = error.full_text(), "Program could not be looked up");
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
    fn an_archive_has_its_digest_as_tag_and_its_length() {
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
    fn only_an_address_that_is_never_of_another_archive_may_be_kept_for_ever() {
        let answer = with_archive(archive(), true, &HeaderMap::new());
        assert_eq!(answer.headers()[header::CACHE_CONTROL], FOR_EVER);
    }

    #[test]
    fn an_archive_that_is_known_is_not_sent_again() {
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
