//! URLs, their credentials, and redirects.

use base64::{Engine, prelude::BASE64_STANDARD};
use pko_auth::Redacted;
use ureq::http::{
    Uri,
    uri::{Authority, PathAndQuery, Scheme},
};

/// The value of an `Authorization` header.
type BasicAuth = Redacted;

/// The target is not part of the message because it may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    #[error("the redirect target is not an HTTP URL")]
    NoAddress,
    #[error("the redirect downgrades https to http")]
    Downgrade,
    #[error("there are more than {0} redirects")]
    TooOften(u32),
}

/// Splits credentials from an HTTP URL. Returns `None` for anything else.
pub(crate) fn parse_url(text: &str) -> Option<(Uri, Option<BasicAuth>)> {
    let uri: Uri = text.parse().ok()?;
    if ![Some(&Scheme::HTTP), Some(&Scheme::HTTPS)].contains(&uri.scheme()) {
        return None;
    }
    let mut parts = uri.into_parts();
    let authority = parts.authority?;
    let (login, host) = match authority.as_str().rsplit_once('@') {
        Some((login, host)) => (Some(basic(login)), host.parse::<Authority>().ok()?),
        None => (None, authority),
    };
    if host.host().is_empty() {
        return None;
    }
    parts.authority = Some(host);
    Some((Uri::from_parts(parts).ok()?, login))
}

fn basic(login: &str) -> BasicAuth {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let plain = [
        &percent_decode(user)[..],
        b":",
        &percent_decode(password)[..],
    ]
    .concat();
    Redacted::new(format!("Basic {}", BASE64_STANDARD.encode(plain)))
}

/// Keeps invalid escapes as they are.
fn percent_decode(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let pair = others.get(..2).filter(|_| *first == b'%');
        let pair = pair.and_then(|pair| str::from_utf8(pair).ok());
        let pair = pair.filter(|pair| !pair.starts_with('+'));
        if let Some(byte) = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()) {
            bytes.push(byte);
            rest = others.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = others;
        }
    }
    bytes
}

/// Resolves a `Location` header, without credentials in it.
pub(crate) fn resolve_redirect(base: &Uri, location: &str) -> Result<Uri, RedirectError> {
    let location = location.split('#').next().unwrap_or_default();
    let scheme = base.scheme_str().unwrap_or_default();
    let target = if let Some(rest) = location.strip_prefix("//") {
        parse_url(&format!("{scheme}://{rest}")).map(|(url, _)| url)
    } else if has_scheme(location) {
        parse_url(location).map(|(url, _)| url)
    } else {
        relative(base, location)
    };
    let target = target.ok_or(RedirectError::NoAddress)?;
    if base.scheme() == Some(&Scheme::HTTPS) && target.scheme() != Some(&Scheme::HTTPS) {
        return Err(RedirectError::Downgrade);
    }
    Ok(target)
}

/// A URL may also be in the query of a relative location.
fn has_scheme(location: &str) -> bool {
    let scheme = location.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn relative(base: &Uri, location: &str) -> Option<Uri> {
    let path = if location.starts_with('/') {
        location.to_owned()
    } else if location.is_empty() {
        return None;
    } else {
        let folder = base
            .path()
            .rsplit_once('/')
            .map_or("", |(folder, _)| folder);
        format!("{folder}/{location}")
    };
    let mut parts = base.clone().into_parts();
    parts.path_and_query = Some(path.parse::<PathAndQuery>().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_credentials_are_split_off() {
        let (url, login) = parse_url("https://me:p%40ss%zz@host.test:8443/a?b=c").unwrap();
        assert_eq!(url, "https://host.test:8443/a?b=c");
        // The text is `me:p@ss%zz`.
        assert_eq!(login.unwrap().expose(), "Basic bWU6cEBzcyV6eg==");
        assert_eq!(parse_url("http://host.test").unwrap().1, None);
        for text in [
            "",
            "/a",
            "ftp://host.test/",
            "host.test/a",
            "http:///a",
            "http://@/",
        ] {
            assert_eq!(parse_url(text), None, "{text}");
        }
    }

    #[test]
    fn redirect_location_is_resolved() {
        let base = Uri::from_static("http://a.test:81/b/c?d");
        let table = [
            ("http://e.test/f", "http://e.test/f"),
            ("https://e.test/f", "https://e.test/f"),
            ("//e.test/f", "http://e.test/f"),
            ("/f?g=h://i", "http://a.test:81/f?g=h://i"),
            ("f", "http://a.test:81/b/f"),
            ("http://u:p@e.test/f#g", "http://e.test/f"),
        ];
        for (location, target) in table {
            assert_eq!(
                resolve_redirect(&base, location).unwrap(),
                target,
                "{location}"
            );
        }
        for location in ["", "file:///etc/passwd", "gopher://a.test/"] {
            assert_eq!(
                resolve_redirect(&base, location),
                Err(RedirectError::NoAddress),
                "{location}"
            );
        }
    }

    #[test]
    fn redirect_downgrade_is_rejected() {
        let base = Uri::from_static("https://a.test/b");
        assert_eq!(
            resolve_redirect(&base, "http://a.test/b"),
            Err(RedirectError::Downgrade)
        );
        assert!(resolve_redirect(&base, "//e.test/b").is_ok());
    }
}
