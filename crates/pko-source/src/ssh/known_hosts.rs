//! Which key a server must show: `known_hosts` texts of the user, and the big forges' keys. Reading the files is
//! [`sources`]' part; the rest does no I/O.
//!
//! Sources are layers: the git auth Secret, then files, then what is built in. The first one that has a key for a
//! server decides, so a key that the user gives replaces the built-in ones. A key that is `@revoked` anywhere is
//! refused.

mod forges;
mod pattern;
mod sources;

use std::fmt;

use pattern::Hosts;
pub use sources::Files;

use super::host_key::{DEFAULT_PORT, HostKey, known_name};

/// What is longer is not a list of servers that somebody wrote.
const LONGEST_TEXT: usize = 4 * 1024 * 1024;
/// Only so many lines that were skipped are remembered.
const MOST_WARNINGS: usize = 20;

/// The servers that are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHosts {
    layers: Vec<Vec<Entry>>,
    warnings: Vec<Warning>,
}

/// Something in the sources that was not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where it stands
    pub place: Place,
    /// What is wrong with it
    pub problem: Problem,
}

/// A line of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// A file, or what else the text came from
    pub source: String,
    /// From 1 on; nothing if it is about the whole source
    pub line: Option<usize>,
}

/// Why a line, or a whole source, was not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not `names type key`.
    #[error("it is not of the form \"host type key\"")]
    Form,
    /// The names match nothing.
    #[error("its host names match nothing")]
    Hosts,
    /// The key is damaged, or not of the type that is said.
    #[error("its key is damaged or not of the type {0}")]
    Key(String),
    /// A marker that is not known.
    #[error("its marker {0} is not known")]
    Marker(String),
    /// Certificates of servers are not supported.
    #[error("@cert-authority is not supported: give the server's own key")]
    CertificateAuthority,
    /// The text is too long to be used.
    #[error("it has more than {LONGEST_TEXT} bytes")]
    TooLong,
    /// The file can't be read.
    #[error("it can't be read: {0}")]
    Unreadable(std::io::ErrorKind),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    hosts: Hosts,
    key: HostKey,
    revoked: bool,
    place: Place,
}

/// What is to be thought of the key that a server shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Known,
    /// Nothing is known of the server.
    Unknown,
    /// The server is known by other keys.
    Changed(Vec<(HostKey, Place)>),
    /// The key must not be used any more.
    Revoked(Place),
}

impl KnownHosts {
    /// No server at all.
    #[must_use]
    pub fn none() -> Self {
        Self {
            layers: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The big forges only.
    #[must_use]
    pub fn built_in() -> Self {
        Self::none().with_text("built in", forges::KEYS)
    }

    /// Adds a text in the format of OpenSSH, for the servers that the texts before it do not have. The name of the
    /// source is for messages.
    #[must_use]
    pub fn with_text(mut self, source: &str, text: &str) -> Self {
        let layer = self.read(source, text);
        self.layers.push(layer);
        self
    }

    /// What was skipped, in the order of the sources.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The kinds of key by which a server is known, so that one of them is asked for first.
    pub(super) fn algorithms(&self, host: &str, port: u16) -> Vec<&str> {
        let entries = names(host, port).into_iter();
        let mut entries = entries.flat_map(|name| self.deciding(&name));
        let mut algorithms = Vec::new();
        for entry in entries.by_ref() {
            if !algorithms.contains(&entry.key.algorithm()) {
                algorithms.push(entry.key.algorithm());
            }
        }
        algorithms
    }

    /// Judges the key that a server shows.
    pub(super) fn judge(&self, host: &str, port: u16, key: &HostKey) -> Verdict {
        let names = names(host, port);
        if let Some(entry) = self.revoked(&names, key) {
            return Verdict::Revoked(entry.place.clone());
        }
        let knows = |name: &String| self.deciding(name).iter().any(|entry| entry.key == *key);
        if names.iter().any(knows) {
            return Verdict::Known;
        }
        // A line without a port vouches for the same key at another port, as with OpenSSH, but says nothing
        // about another key there.
        let others = names.first().map(|name| self.deciding(name));
        match others.unwrap_or_default() {
            others if others.is_empty() => Verdict::Unknown,
            others => Verdict::Changed(
                others
                    .into_iter()
                    .map(|entry| (entry.key.clone(), entry.place.clone()))
                    .collect(),
            ),
        }
    }

    fn revoked(&self, names: &[String], key: &HostKey) -> Option<&Entry> {
        let mut all = self.layers.iter().flatten();
        all.find(|entry| {
            let meant = |name: &String| entry.hosts.matches(name);
            entry.revoked && entry.key == *key && names.iter().any(meant)
        })
    }

    /// The keys of the first layer that has some for this name.
    fn deciding(&self, name: &str) -> Vec<&Entry> {
        let usable = |entry: &&Entry| !entry.revoked && entry.hosts.matches(name);
        let mut layers = self.layers.iter();
        layers
            .by_ref()
            .map(|layer| layer.iter().filter(usable).collect::<Vec<_>>())
            .find(|entries| !entries.is_empty())
            .unwrap_or_default()
    }

    fn read(&mut self, source: &str, text: &str) -> Vec<Entry> {
        let place = |line| Place {
            source: source.to_owned(),
            line,
        };
        if text.len() > LONGEST_TEXT {
            self.warn(place(None), Problem::TooLong);
            return Vec::new();
        }
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let place = place(Some(index + 1));
            match read_line(line) {
                Ok(Some((hosts, key, revoked))) => entries.push(Entry {
                    hosts,
                    key,
                    revoked,
                    place,
                }),
                Ok(None) => {}
                Err(problem) => self.warn(place, problem),
            }
        }
        entries
    }

    fn warn(&mut self, place: Place, problem: Problem) {
        if self.warnings.len() < MOST_WARNINGS {
            self.warnings.push(Warning { place, problem });
        }
    }
}

/// The names under which a server may be known, the most exact one first.
fn names(host: &str, port: u16) -> Vec<String> {
    let mut names = vec![known_name(host, port)];
    if port != DEFAULT_PORT {
        names.push(known_name(host, DEFAULT_PORT));
    }
    names
}

/// One line: whom it is for, the key, and whether that is revoked. Nothing if the line says nothing.
fn read_line(line: &str) -> Result<Option<(Hosts, HostKey, bool)>, Problem> {
    let mut fields = line.split_ascii_whitespace().peekable();
    let revoked = match fields.peek() {
        None => return Ok(None),
        Some(field) if field.starts_with('#') => return Ok(None),
        Some(&"@revoked") => true,
        Some(&"@cert-authority") => return Err(Problem::CertificateAuthority),
        Some(field) if field.starts_with('@') => return Err(Problem::Marker((*field).to_owned())),
        Some(_) => false,
    };
    if revoked {
        fields.next();
    }
    let (Some(hosts), Some(algorithm), Some(key)) = (fields.next(), fields.next(), fields.next())
    else {
        return Err(Problem::Form);
    };
    let hosts = Hosts::parse(hosts).ok_or(Problem::Hosts)?;
    let key = HostKey::parse(algorithm, key);
    let key = key.ok_or_else(|| Problem::Key(algorithm.chars().take(40).collect()))?;
    Ok(Some((hosts, key, revoked)))
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}, line {line}", self.source),
            None => formatter.write_str(&self.source),
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} was skipped: {}", self.place, self.problem)
    }
}

#[cfg(test)]
mod tests;
