//! Parsing and printing of the parts of an address. Does no I/O.

use super::{AddressError, Scheme};

pub(super) struct Authority {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) host: String,
    pub(super) port: Option<u16>,
}

/// Unsupported schemes are part of the error if they are plausible schemes.
pub(super) fn scheme(text: &str) -> Result<Scheme, AddressError> {
    match text.to_ascii_lowercase().as_str() {
        "https" => Ok(Scheme::Https),
        "http" => Ok(Scheme::Http),
        "ssh" | "git+ssh" | "ssh+git" => Ok(Scheme::Ssh),
        other => Err(AddressError::Scheme(sanitize_scheme(other))),
    }
}

fn sanitize_scheme(scheme: &str) -> String {
    let is_scheme = !scheme.is_empty()
        && scheme.len() <= 16
        && scheme
            .chars()
            .all(|each| each.is_ascii_alphanumeric() || "+-.:".contains(each));
    if is_scheme { scheme } else { "unknown" }.to_owned()
}

pub(super) fn authority(text: &str) -> Result<Authority, AddressError> {
    let (credentials, place) = match text.rsplit_once('@') {
        Some((credentials, place)) => (Some(credentials), place),
        None => (None, text),
    };
    let (user, password) = match credentials.map(|both| both.split_once(':').unwrap_or((both, "")))
    {
        Some((user, password)) => (
            decode_component(user, "user")?,
            decode_component(password, "password")?,
        ),
        None => (None, None),
    };
    let (name, port_text) = split_port(place)?;
    Ok(Authority {
        user,
        password,
        host: host(name)?,
        port: port_text.map(port).transpose()?.flatten(),
    })
}

fn split_port(place: &str) -> Result<(&str, Option<&str>), AddressError> {
    if !place.starts_with('[') {
        return Ok(match place.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (place, None),
        });
    }
    let end = place.find(']').ok_or(AddressError::Host)?;
    let (name, rest) = place.split_at(end + 1);
    match (rest.is_empty(), rest.strip_prefix(':')) {
        (true, _) => Ok((name, None)),
        (false, Some(port)) => Ok((name, Some(port))),
        (false, None) => Err(AddressError::Host),
    }
}

fn port(text: &str) -> Result<Option<u16>, AddressError> {
    if text.is_empty() {
        return Ok(None);
    }
    let digits = text.chars().all(|each| each.is_ascii_digit());
    match text.parse() {
        Ok(port) if digits && port != 0 => Ok(Some(port)),
        _ => Err(AddressError::Port),
    }
}

pub(super) fn host(text: &str) -> Result<String, AddressError> {
    if text.is_empty() {
        return Err(AddressError::NoHost);
    }
    if let Some(inner) = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
    {
        let address: std::net::Ipv6Addr = inner.parse().map_err(|_| AddressError::Host)?;
        return Ok(address.to_string());
    }
    if text.starts_with('-') {
        return Err(AddressError::OptionLike("host"));
    }
    let valid = text.len() <= 253
        && text
            .chars()
            .all(|each| each.is_ascii_alphanumeric() || ".-_".contains(each))
        && text.chars().any(|each| each.is_ascii_alphanumeric());
    if valid {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(AddressError::Host)
    }
}

/// Splits `user@host:path` at the colon.
pub(super) fn scp(text: &str) -> Result<(&str, &str), AddressError> {
    if let Some((helper, _)) = text.split_once("::")
        && !helper.contains(['/', '@', '[', ':'])
    {
        // Remote helpers such as `ext::` run programs.
        return Err(AddressError::Scheme(sanitize_scheme(&format!(
            "{helper}::"
        ))));
    }
    let bracket = text.find(']').unwrap_or(0);
    let colon = text
        .get(bracket..)
        .and_then(|rest| rest.find(':'))
        .map(|colon| colon + bracket)
        .ok_or(AddressError::NotAnAddress)?;
    let (before, after) = text.split_at(colon);
    if before.contains('/') {
        return Err(AddressError::NotAnAddress);
    }
    Ok((before, after.trim_start_matches(':')))
}

fn decode_component(text: &str, what: &'static str) -> Result<Option<String>, AddressError> {
    if text.is_empty() {
        return Ok(None);
    }
    percent_decode(text)
        .ok_or(AddressError::Encoding(what))
        .map(Some)
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let high = char::from(rest.next()?).to_digit(16)?;
        let low = char::from(rest.next()?).to_digit(16)?;
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

pub(super) fn push_host(url: &mut String, host: &str) {
    if host.contains(':') {
        url.extend(["[", host, "]"]);
    } else {
        url.push_str(host);
    }
}

/// Percent-encodes what must be encoded and keeps what the user encoded already.
pub(super) fn push_encoded(url: &mut String, path: &str) {
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:@".contains(&byte) {
            url.push(char::from(byte));
        } else {
            url.push('%');
            url.extend(
                [byte >> 4, byte & 15]
                    .into_iter()
                    .filter_map(|digit| char::from_digit(digit.into(), 16))
                    .map(|digit| digit.to_ascii_uppercase()),
            );
        }
    }
}

/// Resolves `./` and `../`. Returns `None` above the root.
pub(super) fn join(base: &str, relative: &str) -> Option<String> {
    let leading = if base.starts_with('/') { "/" } else { "" };
    let mut segments: Vec<&str> = base.split('/').filter(|each| !each.is_empty()).collect();
    for segment in relative.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop()?;
            }
            name => segments.push(name),
        }
    }
    (!segments.is_empty()).then(|| format!("{leading}{}", segments.join("/")))
}
