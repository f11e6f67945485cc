//! Addresses: what is in one, and where a server may send us.

use base64::{Engine, prelude::BASE64_STANDARD};
use ureq::http::{
    Uri,
    uri::{Authority, PathAndQuery, Scheme},
};

use crate::Redacted;

/// The user and the password of an address, as a header's value.
type Login = Redacted<String>;

/// A place to which a server sends us, and we do not go. It may hold a password, so that it is not printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    /// It does not say where to go.
    #[error("it redirects to something that is no HTTP address")]
    NoAddress,
    /// From https to http.
    #[error("it redirects from https to http, which anybody on the way could read and change")]
    Downgrade,
    /// Round in circles, most likely.
    #[error("it redirects more than {0} times")]
    TooOften(u32),
}

/// An address without its user and password, and these; nothing if it is no HTTP address.
pub(crate) fn parse_url(text: &str) -> Option<(Uri, Option<Login>)> {
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

fn basic(login: &str) -> Login {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let plain = [&decoded(user)[..], b":", &decoded(password)[..]].concat();
    Redacted::new(format!("Basic {}", BASE64_STANDARD.encode(plain)))
}

/// `%40` is `@`; what is no such pair of digits stays.
fn decoded(text: &str) -> Vec<u8> {
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

/// Where the header `Location` of an answer from `base` leads. A user and a password in it are left out.
pub(crate) fn redirected(base: &Uri, location: &str) -> Result<Uri, RedirectError> {
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

/// Addresses can be in the query of a path, too.
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
    fn an_address_is_parted_from_its_password() {
        let (url, login) = parse_url("https://me:p%40ss%zz@host.test:8443/a?b=c").unwrap();
        assert_eq!(url, "https://host.test:8443/a?b=c");
        // me:p@ss%zz
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
    fn where_a_server_sends_us() {
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
            assert_eq!(redirected(&base, location).unwrap(), target, "{location}");
        }
        for location in ["", "file:///etc/passwd", "gopher://a.test/"] {
            assert_eq!(
                redirected(&base, location),
                Err(RedirectError::NoAddress),
                "{location}"
            );
        }
    }

    #[test]
    fn what_was_private_stays_private() {
        let base = Uri::from_static("https://a.test/b");
        assert_eq!(
            redirected(&base, "http://a.test/b"),
            Err(RedirectError::Downgrade)
        );
        assert!(redirected(&base, "//e.test/b").is_ok());
    }
}
