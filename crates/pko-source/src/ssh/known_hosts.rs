//! Decides whether a server's key is trusted. Only [`sources`] does I/O.
//!
//! Sources are layers: the git auth Secret, then files, then the built-in keys of public forges.
//! The first layer with a key for a server decides, so the user's keys replace the built-in ones. A
//! key that any layer marks `@revoked` is rejected.

mod forges;
mod pattern;
mod sources;

use std::fmt;

use pattern::HostMatcher;
pub use sources::KnownHostsFiles;

use super::host_key::{DEFAULT_PORT, HostKey, known_hosts_name};

const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
const MAX_WARNINGS: usize = 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHosts {
    layers: Vec<Vec<KnownHostsEntry>>,
    warnings: Vec<KnownHostsWarning>,
}

/// A source or a line that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHostsWarning {
    pub location: KnownHostsLocation,
    pub problem: KnownHostsProblem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHostsLocation {
    /// A file, or another name for the source.
    pub source: String,
    /// Starts at 1. `None` for the whole source.
    pub line: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnownHostsProblem {
    #[error("it is not of the form \"host type key\"")]
    Form,
    #[error("its host names match nothing")]
    Hosts,
    #[error("its key is damaged or not of the type {0}")]
    Key(String),
    #[error("its marker {0} is unknown")]
    Marker(String),
    #[error("@cert-authority is not supported; use the server's own key")]
    CertificateAuthority,
    #[error("it has more than {MAX_TEXT_BYTES} bytes")]
    TooLong,
    #[error("it can't be read: {0}")]
    Unreadable(std::io::ErrorKind),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KnownHostsEntry {
    hosts: HostMatcher,
    key: HostKey,
    revoked: bool,
    location: KnownHostsLocation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostKeyVerdict {
    Trusted,
    /// There is no key for the server.
    Unknown,
    /// There are only other keys for the server.
    Changed(Vec<(HostKey, KnownHostsLocation)>),
    Revoked(KnownHostsLocation),
}

impl KnownHosts {
    #[must_use]
    pub fn empty() -> Self {
        Self {
            layers: Vec::new(),
            warnings: Vec::new(),
        }
    }

    #[must_use]
    pub fn built_in() -> Self {
        Self::empty().with_text("built in", forges::KEYS)
    }

    /// Adds a layer in OpenSSH's format. `source` names it in messages.
    #[must_use]
    pub fn with_text(mut self, source: &str, text: &str) -> Self {
        let layer = self.read(source, text);
        self.layers.push(layer);
        self
    }

    #[must_use]
    pub fn warnings(&self) -> &[KnownHostsWarning] {
        &self.warnings
    }

    /// The algorithms of a server's known keys.
    pub(super) fn algorithms(&self, host: &str, port: u16) -> Vec<&str> {
        let entries = names(host, port).into_iter();
        let mut entries = entries.flat_map(|name| self.trusted_entries(&name));
        let mut algorithms = Vec::new();
        for entry in entries.by_ref() {
            if !algorithms.contains(&entry.key.algorithm()) {
                algorithms.push(entry.key.algorithm());
            }
        }
        algorithms
    }

    /// Verifies the key that a server presents.
    pub(super) fn verify(&self, host: &str, port: u16, key: &HostKey) -> HostKeyVerdict {
        let names = names(host, port);
        if let Some(entry) = self.find_revoked(&names, key) {
            return HostKeyVerdict::Revoked(entry.location.clone());
        }
        let knows = |name: &String| {
            self.trusted_entries(name)
                .iter()
                .any(|entry| entry.key == *key)
        };
        if names.iter().any(knows) {
            return HostKeyVerdict::Trusted;
        }
        // As in OpenSSH, a line without a port trusts the same key on another port, but does not
        // make other keys on that port a mismatch.
        let others = names.first().map(|name| self.trusted_entries(name));
        match others.unwrap_or_default() {
            others if others.is_empty() => HostKeyVerdict::Unknown,
            others => HostKeyVerdict::Changed(
                others
                    .into_iter()
                    .map(|entry| (entry.key.clone(), entry.location.clone()))
                    .collect(),
            ),
        }
    }

    fn find_revoked(&self, names: &[String], key: &HostKey) -> Option<&KnownHostsEntry> {
        let mut all = self.layers.iter().flatten();
        all.find(|entry| {
            let meant = |name: &String| entry.hosts.matches(name);
            entry.revoked && entry.key == *key && names.iter().any(meant)
        })
    }

    /// The keys of the first layer that has any for this name.
    fn trusted_entries(&self, name: &str) -> Vec<&KnownHostsEntry> {
        let usable = |entry: &&KnownHostsEntry| !entry.revoked && entry.hosts.matches(name);
        let mut layers = self.layers.iter();
        layers
            .by_ref()
            .map(|layer| layer.iter().filter(usable).collect::<Vec<_>>())
            .find(|entries| !entries.is_empty())
            .unwrap_or_default()
    }

    fn read(&mut self, source: &str, text: &str) -> Vec<KnownHostsEntry> {
        let location = |line| KnownHostsLocation {
            source: source.to_owned(),
            line,
        };
        if text.len() > MAX_TEXT_BYTES {
            self.warn(location(None), KnownHostsProblem::TooLong);
            return Vec::new();
        }
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let location = location(Some(index + 1));
            match read_line(line) {
                Ok(Some((hosts, key, revoked))) => entries.push(KnownHostsEntry {
                    hosts,
                    key,
                    revoked,
                    location,
                }),
                Ok(None) => {}
                Err(problem) => self.warn(location, problem),
            }
        }
        entries
    }

    fn warn(&mut self, location: KnownHostsLocation, problem: KnownHostsProblem) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(KnownHostsWarning { location, problem });
        }
    }
}

/// The names to look up, the most specific first.
fn names(host: &str, port: u16) -> Vec<String> {
    let mut names = vec![known_hosts_name(host, port)];
    if port != DEFAULT_PORT {
        names.push(known_hosts_name(host, DEFAULT_PORT));
    }
    names
}

/// Parses a line into hosts, key and whether it is revoked. Returns `None` for comments and empty
/// lines.
fn read_line(line: &str) -> Result<Option<(HostMatcher, HostKey, bool)>, KnownHostsProblem> {
    let mut fields = line.split_ascii_whitespace().peekable();
    let revoked = match fields.peek() {
        None => return Ok(None),
        Some(field) if field.starts_with('#') => return Ok(None),
        Some(&"@revoked") => true,
        Some(&"@cert-authority") => return Err(KnownHostsProblem::CertificateAuthority),
        Some(field) if field.starts_with('@') => {
            return Err(KnownHostsProblem::Marker((*field).to_owned()));
        }
        Some(_) => false,
    };
    if revoked {
        fields.next();
    }
    let (Some(hosts), Some(algorithm), Some(key)) = (fields.next(), fields.next(), fields.next())
    else {
        return Err(KnownHostsProblem::Form);
    };
    let hosts = HostMatcher::parse(hosts).ok_or(KnownHostsProblem::Hosts)?;
    let key = HostKey::parse(algorithm, key);
    let key = key.ok_or_else(|| KnownHostsProblem::Key(algorithm.chars().take(40).collect()))?;
    Ok(Some((hosts, key, revoked)))
}

impl fmt::Display for KnownHostsLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}, line {line}", self.source),
            None => formatter.write_str(&self.source),
        }
    }
}

impl fmt::Display for KnownHostsWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} was skipped: {}", self.location, self.problem)
    }
}

#[cfg(test)]
mod tests;
