//! What can go wrong with an SSH server, in words that name the way out.

use std::{fmt, io};

use super::{HostKey, KeyError, Place, Warning};

/// Why there is no session, or why it ended. Nothing in it is secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SshError {
    /// The user's key can't be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The path of the repository is none that a server may be told.
    #[error("the path of the repository is empty, begins with a dash or has a NUL in it")]
    Path,
    /// There is no connection.
    #[error("failed to reach the SSH server {address}: {reason}")]
    Unreachable {
        /// Host and port
        address: String,
        /// What the system said
        reason: String,
    },
    /// The server took too long.
    #[error("the SSH server {address} took too long: {stage}")]
    Deadline {
        /// Host and port
        address: String,
        /// What we waited for
        stage: Stage,
    },
    /// What is there does not speak SSH as we do.
    #[error("failed to speak SSH with {address}: {reason}")]
    Protocol {
        /// Host and port
        address: String,
        /// What was not understood
        reason: String,
    },
    /// Nothing is known of the server.
    #[error("{0}")]
    UnknownHost(Box<UnknownHost>),
    /// The server is known by other keys.
    #[error("{0}")]
    ChangedHost(Box<ChangedHost>),
    /// The server shows a key that must not be used any more.
    #[error(
        "the SSH server {address} shows the key {key:?}, which is revoked ({place}): nothing was sent to it"
    )]
    RevokedHost {
        /// Host and port
        address: String,
        /// What it shows
        key: Box<HostKey>,
        /// Where it is revoked
        place: Place,
    },
    /// The server does not let the user in.
    #[error("{0}")]
    Refused(Box<Refused>),
    /// The server wants signatures with SHA-1, which anybody may forge one day.
    #[error(
        "the SSH server {address} takes RSA keys only with SHA-1, which is not safe: use an Ed25519 or ECDSA key, or a newer server"
    )]
    OnlySha1 {
        /// Host and port
        address: String,
    },
    /// The server does not run the command.
    #[error("the SSH server {address} refuses to run {program}{said}", said = after(said))]
    CommandRefused {
        /// Host and port
        address: String,
        /// The first word of the command
        program: String,
        /// What the server wrote
        said: String,
    },
    /// The command failed.
    #[error("{program} failed on the SSH server {address}{said}", said = after(said))]
    CommandFailed {
        /// Host and port
        address: String,
        /// The first word of the command
        program: String,
        /// Its exit code, if it ended by itself
        status: Option<u32>,
        /// What it wrote to its standard error
        said: String,
    },
    /// The connection ended before the command did.
    #[error("the SSH server {address} closed the connection{said}", said = after(said))]
    Closed {
        /// Host and port
        address: String,
        /// What the server wrote
        said: String,
    },
    /// The system gives us no thread or no socket.
    #[error("failed to start a thread for SSH: {0}")]
    Thread(String),
}

/// What was waited for when time was up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its name, or a connection
    Connect,
    /// The greeting and the keys
    Handshake,
    /// Whether we may come in
    Authenticate,
    /// The command to start
    Command,
    /// What the command reads or writes
    Transfer,
}

/// A server that nobody vouched for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownHost {
    /// Host and port
    pub address: String,
    /// What it shows
    pub key: HostKey,
    /// What makes it known, if the key is right
    pub line: String,
    /// Lines of the user's that were not used, one of which may be about this server
    pub skipped: Vec<Warning>,
}

/// A server that shows another key than it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedHost {
    /// Host and port
    pub address: String,
    /// What it shows
    pub key: HostKey,
    /// What it should show, and who says so
    pub known: Vec<(HostKey, Place)>,
    /// What makes it known, if the key is right
    pub line: String,
}

/// Somebody who is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Host and port
    pub address: String,
    /// As whom
    pub user: String,
    /// The public part of the key
    pub key: HostKey,
    /// The key was good, but something else is asked for as well
    pub wants_more: bool,
    /// What the server wrote
    pub said: String,
}

impl SshError {
    /// The error that a read or a write of a session failed with.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<SshError> for io::Error {
    fn from(error: SshError) -> Self {
        let kind = match &error {
            SshError::Deadline { .. } => io::ErrorKind::TimedOut,
            SshError::Closed { .. } => io::ErrorKind::ConnectionAborted,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connect => "no connection",
            Self::Handshake => "no greeting and no keys from it",
            Self::Authenticate => "no answer to our key",
            Self::Command => "it did not start the command",
            Self::Transfer => "the command did not go on",
        })
    }
}

impl fmt::Display for UnknownHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the SSH server {} is not known; it shows the key {:?}. If its owner confirms that, add this line to \
             `knownHosts` in the git auth Secret: {}",
            self.address, self.key, self.line
        )?;
        for warning in self.skipped.iter().take(3) {
            write!(formatter, "; note: {warning}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ChangedHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "THE KEY OF THE SSH SERVER {} HAS CHANGED, somebody may be listening in: it shows {:?}, but is known by ",
            self.address, self.key
        )?;
        for (index, (key, place)) in self.known.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(formatter, "{comma}{key:?} ({place})")?;
        }
        write!(
            formatter,
            ". Nothing was sent to it. Only if its owner confirms the new key, put this line in place of the old ones, \
             in `knownHosts` in the git auth Secret: {}",
            self.line
        )
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address, user, key, ..
        } = self;
        if self.wants_more {
            write!(
                formatter,
                "the SSH server {address} takes the key {key:?} for the user {user}, but asks for something more, which is not supported"
            )?;
        } else {
            write!(
                formatter,
                "the SSH server {address} refuses the key {key:?} for the user {user}: is its public part known there, and may it read?"
            )?;
        }
        formatter.write_str(&after(&self.said))
    }
}

fn after(said: &str) -> String {
    if said.is_empty() {
        String::new()
    } else {
        format!(": {said}")
    }
}
