//! Errors of git operations. Each names the address, without credentials, and what to do.

use std::{io, path::PathBuf, time::Duration};

pub use super::error_details::{CredentialKind, LimitExceeded, RedirectRefusal};
use super::{Address, AddressError, CommitId, RevisionError, TreeProblem};
use crate::{DeadlineExceeded, directory_swap::DirectorySwapError, http_client::HttpClientError};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    #[error(transparent)]
    Address(#[from] AddressError),
    #[error(transparent)]
    Revision(#[from] RevisionError),
    #[error("{address} does not support {credential}; {hint}")]
    CredentialsDoNotFit {
        address: String,
        credential: CredentialKind,
        hint: &'static str,
    },
    #[error("authentication required: {address} returned status {status} for {credential}{hint}")]
    Denied {
        address: String,
        credential: CredentialKind,
        status: u16,
        hint: &'static str,
    },
    #[error("repository not found: {address}, requested with {credential}{hint}")]
    NotFound {
        address: String,
        credential: CredentialKind,
        hint: &'static str,
    },
    #[error("{address} limits the rate of requests")]
    TooManyRequests {
        address: String,
        retry_after: Option<Duration>,
    },
    #[error("{address} returned status {status}, an error of the server")]
    Server {
        address: String,
        status: u16,
        retry_after: Option<Duration>,
    },
    #[error("{address} returned status {status}")]
    Status { address: String, status: u16 },
    #[error("{address} redirects to {to}: {refusal}")]
    Redirect {
        address: String,
        to: String,
        refusal: RedirectRefusal,
    },
    #[error("the request to {address} failed")]
    Network {
        address: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error(
        "the certificate of {address} is not trusted; set SSL_CERT_FILE to a file with its CA certificate"
    )]
    Untrusted {
        address: String,
        #[source]
        source: Box<ureq::Error>,
    },
    #[error("failed to read the response of {address}")]
    Read {
        address: String,
        #[source]
        source: io::Error,
    },
    /// A transport other than HTTP failed, or the GitHub API.
    #[error("failed to connect to {address}")]
    Connect {
        address: String,
        transient: bool,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{address} did not respond in time")]
    Deadline { address: String },
    #[error("{address} is not a git repository; check the address")]
    NotGit { address: String },
    #[error("{address} violates git's protocol: {problem}")]
    Protocol {
        address: String,
        problem: &'static str,
    },
    #[error("{address} refused the request: {message}")]
    Refused {
        address: String,
        /// One line, without secrets.
        message: String,
    },
    #[error("{address} does not have commit {commit}; push it first")]
    NoSuchCommit { address: String, commit: CommitId },
    #[error("{address} has {limit}")]
    Limit {
        address: String,
        limit: LimitExceeded,
    },
    #[error("{address} sent an invalid pack")]
    Pack {
        address: String,
        #[source]
        source: Box<gix_error::Error>,
    },
    #[error("{address} contains {path:?}, which is rejected: {problem}")]
    Tree {
        address: String,
        path: String,
        problem: TreeProblem,
    },
    #[error("failed to write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    PackDestination(#[from] DirectorySwapError),
    #[error("failed to fetch submodule {path:?}")]
    Submodule {
        path: String,
        #[source]
        source: Box<GitError>,
    },
    #[error(".gitmodules of {address} has no url for it")]
    NoSubmoduleAddress { address: String },
    #[error(
        "{address} is plain http; a submodule of an https or ssh repository must use https or ssh"
    )]
    InsecureSubmodule { address: String },
    #[error(transparent)]
    GitClient(#[from] HttpClientError),
}

impl GitError {
    /// Whether a retry may succeed without any change by the user.
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

    /// The delay that the server requested.
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

    pub(crate) fn from_request(address: &Address, error: ureq::Error) -> Self {
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

    pub(crate) fn from_read(address: &Address, error: io::Error) -> Self {
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
    fn git_error_transient_classification() {
        let retry_after = Some(Duration::from_secs(7));
        let busy = GitError::TooManyRequests {
            address: address().to_string(),
            retry_after,
        };
        assert!(busy.is_transient());
        assert_eq!(busy.retry_after(), retry_after);
        let deadline =
            GitError::from_request(&address(), ureq::Error::Timeout(ureq::Timeout::Global));
        assert!(deadline.is_transient());
        assert_eq!(
            deadline.to_string(),
            "https://host/r.git did not respond in time"
        );
        assert!(GitError::from_request(&address(), ureq::Error::HostNotFound).is_transient());
        assert!(!GitError::from_request(&address(), ureq::Error::Tls("wrong")).is_transient());
        assert!(
            !GitError::NotGit {
                address: address().to_string()
            }
            .is_transient()
        );
    }

    #[test]
    fn git_error_deadline_inside_read_error() {
        let error = io::Error::other(DeadlineExceeded);
        assert!(matches!(
            GitError::from_read(&address(), error),
            GitError::Deadline { .. }
        ));
        let error = io::Error::other("else");
        assert!(matches!(
            GitError::from_read(&address(), error),
            GitError::Read { .. }
        ));
    }

    #[test]
    fn git_error_contains_no_password() {
        let error = GitError::NotFound {
            address: address().to_string(),
            credential: CredentialKind::Address,
            hint: "",
        };
        assert!(!format!("{error} {error:?}").contains("canary"));
    }
}
