//! Addresses of git repositories: URLs and `user@host:path`. Does no I/O.
//!
//! The path is used exactly as the user wrote it, so that Azure DevOps (`/org/project/_git/repo`),
//! GitLab subgroups and gists work.

use std::fmt;

mod parts;

use parts::Authority;
use pko_auth::Redacted;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    Https,
    Http,
    Ssh,
}

impl Scheme {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
        }
    }

    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
            Self::Ssh => 22,
        }
    }
}

/// Where a repository is. Printed without user and password, because either may be a token. The
/// user of an SSH address is not a secret and is printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    scheme: Scheme,
    host: String,
    port: Option<u16>,
    path: String,
    /// `git@host:path` is relative to the user's home, `ssh://git@host/path` is not.
    scp_like: bool,
    user: Option<Redacted>,
    password: Option<Redacted>,
}

/// Messages repeat nothing of the input but the scheme, because it may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("invalid URL scheme: {0}; use https, http or ssh")]
    Scheme(String),
    #[error(
        "the repository's address is neither a URL nor like git@host:path; a local path is not supported"
    )]
    NotAnAddress,
    #[error("the repository's address has no host")]
    NoHost,
    #[error(
        "the host of the repository's address is not valid; it consists of letters, digits, dots and hyphens"
    )]
    Host,
    #[error("the port of the repository's address is not a number from 1 to 65535")]
    Port,
    #[error("the repository's address has no path")]
    NoPath,
    /// A path or user that a program would take for an option.
    #[error("the {0} of the repository's address starts with a hyphen")]
    OptionLike(&'static str),
    #[error("the repository's address contains a control character")]
    ControlCharacter,
    #[error(
        "the repository's address contains a query or a fragment; branch and folder have fields of their own"
    )]
    QueryOrFragment,
    #[error("the {0} in the repository's address is not percent-encoded text")]
    Encoding(&'static str),
}

impl Address {
    /// Parses a URL or the scp-like form `user@host:path`.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.chars().any(char::is_control) {
            return Err(AddressError::ControlCharacter);
        }
        let address = match text.split_once("://") {
            Some((scheme, rest)) => Self::parse_url(scheme, rest)?,
            None => Self::parse_scp(text)?,
        };
        address.check()
    }

    fn parse_url(scheme: &str, rest: &str) -> Result<Self, AddressError> {
        let scheme = parts::scheme(scheme)?;
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        let Authority {
            user,
            password,
            host,
            port,
        } = parts::authority(authority)?;
        if scheme != Scheme::Ssh && path.contains(['?', '#']) {
            return Err(AddressError::QueryOrFragment);
        }
        Ok(Self {
            scheme,
            host,
            port,
            path: path.to_owned(),
            scp_like: false,
            user: user.map(Redacted::new),
            password: password.map(Redacted::new),
        })
    }

    fn parse_scp(text: &str) -> Result<Self, AddressError> {
        let (before, path) = parts::scp(text)?;
        let (user, host) = match before.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, before),
        };
        Ok(Self {
            scheme: Scheme::Ssh,
            host: parts::host(host)?,
            port: None,
            path: path.to_owned(),
            scp_like: true,
            user: user
                .filter(|user| !user.is_empty())
                .map(|user| Redacted::new(user.to_owned())),
            password: None,
        })
    }

    fn check(self) -> Result<Self, AddressError> {
        if self.path.trim_matches('/').is_empty() {
            return Err(AddressError::NoPath);
        }
        if self.path.starts_with('-') {
            return Err(AddressError::OptionLike("path"));
        }
        let user = self.user().unwrap_or_default();
        let password = self.password().unwrap_or_default();
        if user.chars().chain(password.chars()).any(char::is_control) {
            return Err(AddressError::ControlCharacter);
        }
        if self.scheme == Scheme::Ssh && user.starts_with('-') {
            return Err(AddressError::OptionLike("user"));
        }
        Ok(self)
    }

    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// In lower case. An IPv6 address has no brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.unwrap_or_else(|| self.scheme.default_port())
    }

    /// The path for the server. Over SSH, `/~user/…` loses its slash so that the shell expands it.
    #[must_use]
    pub fn path(&self) -> &str {
        match self.path.strip_prefix('/') {
            Some(home) if self.scheme == Scheme::Ssh && home.starts_with('~') => home,
            _ => &self.path,
        }
    }

    /// May be a token.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_ref().map(Redacted::expose)
    }

    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.password.as_ref().map(Redacted::expose)
    }

    /// Whether scheme, host and port agree.
    #[must_use]
    pub fn same_server(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port()) == (other.scheme, &other.host, other.port())
    }

    /// Whether the hosts agree, on any port and scheme.
    #[must_use]
    pub fn same_host(&self, other: &Self) -> bool {
        self.host == other.host
    }

    #[must_use]
    pub fn without_credentials(&self) -> Self {
        Self {
            user: None,
            password: None,
            ..self.clone()
        }
    }

    /// Resolves a relative address such as `../other.git` from `.gitmodules`.
    pub fn relative(&self, relative: &str) -> Result<Self, AddressError> {
        if relative.chars().any(char::is_control) {
            return Err(AddressError::ControlCharacter);
        }
        let path = parts::join(&self.path, relative).ok_or(AddressError::NoPath)?;
        let next = Self {
            path,
            ..self.clone()
        };
        next.check()
    }

    /// The repository's address after a redirect to `location`, without the original credentials.
    /// `None` if it is not the same repository elsewhere.
    #[must_use]
    pub fn redirected(&self, location: &str, tail: &str) -> Option<Self> {
        let location = location.trim();
        if location.starts_with('/') {
            let path = location.strip_suffix(tail)?;
            let next = Self {
                path: path.to_owned(),
                ..self.clone()
            };
            return next.check().ok();
        }
        let base = location.strip_suffix(tail)?;
        Self::parse(base)
            .ok()
            .map(|next| next.without_credentials())
            .filter(|next| next.scheme != Scheme::Ssh)
    }

    /// The URL of `tail` within the repository.
    #[must_use]
    pub fn http_url(&self, tail: &str) -> String {
        let mut url = format!("{}://", self.scheme.name());
        parts::push_host(&mut url, &self.host);
        if let Some(port) = self.port {
            url.extend([":", &port.to_string()]);
        }
        parts::push_encoded(&mut url, self.path.trim_end_matches('/'));
        url.push_str(tail);
        url
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut host = String::new();
        parts::push_host(&mut host, &self.host);
        let user = match (self.scheme, self.user()) {
            (Scheme::Ssh, Some(user)) => format!("{user}@"),
            _ => String::new(),
        };
        if self.scp_like {
            return write!(formatter, "{user}{host}:{}", self.path);
        }
        write!(formatter, "{}://{user}{host}", self.scheme.name())?;
        if let Some(port) = self.port {
            write!(formatter, ":{port}")?;
        }
        formatter.write_str(&self.path)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Address({self})")
    }
}

#[cfg(test)]
mod tests;
