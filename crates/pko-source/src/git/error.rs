//! What goes wrong with a git server. Each error names the address, without user and password, and the way out.

use std::{io, path::PathBuf, time::Duration};

pub use super::error_kinds::{CredentialKind, LimitExceeded, RedirectRefusal};
use super::{Address, AddressError, CommitId, RevisionError, TreeProblem};
use crate::{DeadlineExceeded, http_client::ClientError, place::PlaceError};

/// Something that went wrong with a git server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// The address is none that we use.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// There is no such commit.
    #[error(transparent)]
    Revision(#[from] RevisionError),
    /// The credentials are of a kind that the address has no use for.
    #[error("{address} can't be read with {credential}; {hint}")]
    CredentialsDoNotFit {
        /// Where
        address: String,
        /// With what
        credential: CredentialKind,
        /// What fits
        hint: &'static str,
    },
    /// The server wants other credentials.
    #[error(
        "authentication required: {address} was asked with {credential} and said {status}{hint}"
    )]
    Denied {
        /// Where
        address: String,
        /// With what
        credential: CredentialKind,
        /// 401 or 403
        status: u16,
        /// What may be wrong
        hint: &'static str,
    },
    /// There is no repository.
    #[error("repository not found: {address} was asked with {credential}{hint}")]
    NotFound {
        /// Where
        address: String,
        /// With what
        credential: CredentialKind,
        /// What may be wrong
        hint: &'static str,
    },
    /// We ask too often.
    #[error("{address} said that it is asked too often (status 429)")]
    TooManyRequests {
        /// Where
        address: String,
        /// When we may ask again
        retry_after: Option<Duration>,
    },
    /// The server is out of order.
    #[error("{address} said {status}; it may work later")]
    Server {
        /// Where
        address: String,
        /// 500 and above
        status: u16,
        /// When we may ask again
        retry_after: Option<Duration>,
    },
    /// The server said something else.
    #[error("{address} said {status}")]
    Status {
        /// Where
        address: String,
        /// What
        status: u16,
    },
    /// The server sends us elsewhere, where we don't go.
    #[error("{address} redirects to {to}: {refusal}")]
    Redirect {
        /// Where
        address: String,
        /// Where to, as far as it is an address
        to: String,
        /// Why we don't go there
        refusal: RedirectRefusal,
    },
    /// The server could not be reached or hung up.
    #[error("failed to talk to {address}")]
    Network {
        /// Where
        address: String,
        /// Why
        #[source]
        source: Box<ureq::Error>,
    },
    /// The server's certificate is not one that we believe, or TLS fails otherwise.
    #[error(
        "the certificate of {address} is not trusted; SSL_CERT_FILE may name a file with that of its authority"
    )]
    Untrusted {
        /// Where
        address: String,
        /// Why
        #[source]
        source: Box<ureq::Error>,
    },
    /// What the server said could not be read to its end.
    #[error("failed to read the answer of {address}")]
    Read {
        /// Where
        address: String,
        /// Why
        #[source]
        source: io::Error,
    },
    /// Another way to the server failed.
    #[error("failed to connect to {address}")]
    Connect {
        /// Where
        address: String,
        /// It may work the next time
        transient: bool,
        /// Why
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server took too long.
    #[error("{address} did not answer in time")]
    Deadline {
        /// Where
        address: String,
    },
    /// There is no git server.
    #[error("{address} does not answer as a git server does; is it the address of a repository?")]
    NotGit {
        /// Where
        address: String,
    },
    /// The server does not keep to the protocol.
    #[error("{address} does not speak git's protocol: {problem}")]
    Protocol {
        /// Where
        address: String,
        /// What is wrong
        problem: &'static str,
    },
    /// The server refused in its own words.
    #[error("{address} refused: {message}")]
    Refused {
        /// Where
        address: String,
        /// The server's words: one line, without what is secret
        message: String,
    },
    /// The commit is not there.
    #[error("{address} does not have commit {commit}; was it pushed?")]
    NoSuchCommit {
        /// Where
        address: String,
        /// Which
        commit: CommitId,
    },
    /// There is more than we take.
    #[error("{address} has {limit}")]
    Limit {
        /// Where
        address: String,
        /// More of what
        limit: LimitExceeded,
    },
    /// What the server sent is damaged.
    #[error("{address} sent a pack that can't be used")]
    Pack {
        /// Where
        address: String,
        /// Why
        #[source]
        source: Box<gix_error::Error>,
    },
    /// The commit has something in it that we don't write.
    #[error("{address} has {path:?} in it, which is refused: {problem}")]
    Tree {
        /// Where
        address: String,
        /// Which file
        path: String,
        /// Why
        problem: TreeProblem,
    },
    /// A file could not be written.
    #[error("failed to write {}", path.display())]
    Write {
        /// Which
        path: PathBuf,
        /// Why
        #[source]
        source: io::Error,
    },
    /// The folder could not take its place.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A submodule could not be fetched.
    #[error("failed to fetch submodule {path:?}")]
    Submodule {
        /// Where it belongs
        path: String,
        /// Why
        #[source]
        source: Box<GitError>,
    },
    /// A submodule's address is nowhere.
    #[error("{address} has no url for it in .gitmodules")]
    NoSubmoduleAddress {
        /// Where
        address: String,
    },
    /// A submodule without TLS.
    #[error(
        "{address} is plain http, which a submodule of a repository behind https or ssh may not be"
    )]
    InsecureSubmodule {
        /// Where
        address: String,
    },
    /// There is no client as the environment and the settings want it.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl GitError {
    /// It may work the next time, without anyone doing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::TooManyRequests { .. }
            | Self::Server { .. }
            | Self::Deadline { .. }
            | Self::Read { .. } => true,
            Self::Network { source, .. } => {
                !matches!(**source, ureq::Error::BadUri(_) | ureq::Error::Http(_))
            }
            Self::Connect { transient, .. } => *transient,
            Self::Submodule { source, .. } => source.is_transient(),
            _ => false,
        }
    }

    /// How long the server asks us to wait.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooManyRequests { retry_after, .. } | Self::Server { retry_after, .. } => {
                *retry_after
            }
            Self::Submodule { source, .. } => source.retry_after(),
            _ => None,
        }
    }

    /// A request that failed.
    pub(crate) fn of_request(address: &Address, error: ureq::Error) -> Self {
        let address = address.to_string();
        match error {
            ureq::Error::Timeout(ureq::Timeout::Global | ureq::Timeout::PerCall) => {
                Self::Deadline { address }
            }
            error if is_of_tls(&error) => Self::Untrusted {
                address,
                source: Box::new(error),
            },
            error => Self::Network {
                address,
                source: Box::new(error),
            },
        }
    }

    /// An answer that broke off.
    pub(crate) fn of_read(address: &Address, error: io::Error) -> Self {
        let address = address.to_string();
        let timed_out = error.kind() == io::ErrorKind::TimedOut
            || error.get_ref().is_some_and(|inner| {
                inner.is::<DeadlineExceeded>()
                    || matches!(inner.downcast_ref(), Some(ureq::Error::Timeout(_)))
            });
        if timed_out {
            Self::Deadline { address }
        } else {
            Self::Read {
                address,
                source: error,
            }
        }
    }
}

fn is_of_tls(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => true,
        ureq::Error::Io(error) => error.kind() == io::ErrorKind::InvalidData,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address::parse("https://canary-user:canary-password@host/r.git").unwrap()
    }

    #[test]
    fn what_may_pass() {
        let retry_after = Some(Duration::from_secs(7));
        let busy = GitError::TooManyRequests {
            address: address().to_string(),
            retry_after,
        };
        assert!(busy.is_transient());
        assert_eq!(busy.retry_after(), retry_after);
        let deadline =
            GitError::of_request(&address(), ureq::Error::Timeout(ureq::Timeout::Global));
        assert!(deadline.is_transient());
        assert_eq!(
            deadline.to_string(),
            "https://host/r.git did not answer in time"
        );
        assert!(GitError::of_request(&address(), ureq::Error::HostNotFound).is_transient());
        assert!(!GitError::of_request(&address(), ureq::Error::Tls("wrong")).is_transient());
        assert!(
            !GitError::NotGit {
                address: address().to_string()
            }
            .is_transient()
        );
    }

    #[test]
    fn a_time_limit_within_an_error_of_reading() {
        let error = io::Error::other(DeadlineExceeded);
        assert!(matches!(
            GitError::of_read(&address(), error),
            GitError::Deadline { .. }
        ));
        let error = io::Error::other("else");
        assert!(matches!(
            GitError::of_read(&address(), error),
            GitError::Read { .. }
        ));
    }

    #[test]
    fn no_error_shows_a_password() {
        let error = GitError::NotFound {
            address: address().to_string(),
            credential: CredentialKind::Address,
            hint: "",
        };
        assert!(!format!("{error} {error:?}").contains("canary"));
    }
}
