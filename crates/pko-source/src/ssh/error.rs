//! Errors of SSH sessions, with what to do about them.

use std::{fmt, io};

use super::{HostKey, KnownHostsLocation, KnownHostsWarning, PrivateKeyError};

/// Contains no secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SshError {
    #[error(transparent)]
    Key(#[from] PrivateKeyError),
    #[error("the path of the repository is empty, starts with a hyphen or contains a NUL")]
    Path,
    #[error("failed to reach the SSH server {address}: {reason}")]
    Unreachable { address: String, reason: String },
    #[error("the SSH server {address} did not respond in time {stage}")]
    Deadline { address: String, stage: SshStage },
    #[error("the SSH connection to {address} failed: {reason}")]
    Protocol { address: String, reason: String },
    #[error("{0}")]
    UnknownHost(Box<UnknownHost>),
    #[error("{0}")]
    HostKeyChanged(Box<HostKeyChanged>),
    #[error(
        "the SSH server {address} presents the revoked key {key:?} ({location}); nothing was sent to it"
    )]
    HostKeyRevoked {
        address: String,
        key: Box<HostKey>,
        location: KnownHostsLocation,
    },
    #[error("{0}")]
    AuthenticationFailed(Box<AuthenticationFailure>),
    #[error(
        "the SSH server {address} accepts RSA keys only with SHA-1, which is not secure; use an Ed25519 or ECDSA key, or upgrade the server"
    )]
    OnlySha1 { address: String },
    #[error("the SSH server {address} refuses to run {program}{message}", message = suffix(message))]
    CommandRefused {
        address: String,
        program: String,
        message: String,
    },
    #[error("{program} failed on the SSH server {address}{message}", message = suffix(message))]
    CommandFailed {
        address: String,
        program: String,
        /// `None` if a signal ended it.
        status: Option<u32>,
        /// Its standard error.
        message: String,
    },
    #[error("the SSH server {address} closed the connection{message}", message = suffix(message))]
    Closed { address: String, message: String },
    #[error("failed to start a thread for SSH: {0}")]
    Thread(String),
}

/// The stage that the deadline interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SshStage {
    Connect,
    Handshake,
    Authenticate,
    Command,
    Transfer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownHost {
    pub address: String,
    pub key: HostKey,
    /// The line for `knownHosts` that trusts the key.
    pub line: String,
    /// Skipped lines, one of which may be about this server.
    pub skipped: Vec<KnownHostsWarning>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostKeyChanged {
    pub address: String,
    pub key: HostKey,
    /// The expected keys, and where they come from.
    pub known: Vec<(HostKey, KnownHostsLocation)>,
    /// The line for `knownHosts` that trusts the key.
    pub line: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticationFailure {
    pub address: String,
    pub user: String,
    pub key: HostKey,
    /// The server accepted the key but requires another method too.
    pub partial_success: bool,
    pub message: String,
}

impl SshError {
    /// The `SshError` inside an error of a read or a write.
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

impl fmt::Display for SshStage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Connect => "while connecting",
            Self::Handshake => "during the key exchange",
            Self::Authenticate => "during authentication",
            Self::Command => "while starting the command",
            Self::Transfer => "during the transfer",
        })
    }
}

impl fmt::Display for UnknownHost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the SSH server {} is unknown and presents the key {:?}. If its owner confirms the key, add this line \
             to `knownHosts` in the git auth Secret: {}",
            self.address, self.key, self.line
        )?;
        for warning in self.skipped.iter().take(3) {
            write!(formatter, "; note: {warning}")?;
        }
        Ok(())
    }
}

impl fmt::Display for HostKeyChanged {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "THE HOST KEY OF THE SSH SERVER {} HAS CHANGED, which may be an attack: it presents {:?}, but the known keys are ",
            self.address, self.key
        )?;
        for (index, (key, location)) in self.known.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(formatter, "{comma}{key:?} ({location})")?;
        }
        write!(
            formatter,
            ". Nothing was sent to it. Only if its owner confirms the new key, replace the old lines in `knownHosts` \
             in the git auth Secret with: {}",
            self.line
        )
    }
}

impl fmt::Display for AuthenticationFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address, user, key, ..
        } = self;
        if self.partial_success {
            write!(
                formatter,
                "the SSH server {address} accepts the key {key:?} for user {user}, but requires another authentication method, which is not supported"
            )?;
        } else {
            write!(
                formatter,
                "the SSH server {address} rejects the key {key:?} for user {user}; check that the public key is registered there and may read the repository"
            )?;
        }
        formatter.write_str(&suffix(&self.message))
    }
}

fn suffix(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    }
}
