//! Git: lists the references of a server and fetches commits.
//!
//! ```text
//!   Remote ─▶ GitClient ─┬─▶ http (ureq) ────┬─▶ protocol ─▶ references, or a pack
//!                        └─▶ SshConnector ───┘
//! ```
//!
//! The wire protocol is written here and not taken from gitoxide. `DESIGN.md` gives the reasons and
//! the size.

mod address;
mod advertisement;
mod capabilities;
mod checkout;
mod client;
mod credentials;
mod error;
mod error_details;
mod fetch;
#[doc(hidden)]
pub mod fuzz;
mod git_directory;
mod github_app;
mod gitmodules;
mod http;
mod limited_reader;
mod limits;
mod pack;
mod pkt_line;
mod protocol;
mod references;
mod remote;
mod revision;
mod similar_name;
mod ssh_transport;
mod submodules;
mod transport;

pub use address::{Address, AddressError, Scheme};
pub use checkout::TreeProblem;
pub use client::{AppTokenProvider, GitClient, SshConnector};
pub use credentials::{Credentials, GithubApp, SshKey};
pub use error::{CredentialKind, GitError, LimitExceeded, RedirectRefusal};
pub use fetch::{FetchOptions, FetchedCommit};
pub use github_app::{GITHUB_API, GithubAppError, GithubTokens};
pub use http::{HttpClient, HttpSettings};
pub use limits::GitLimits;
pub use references::References;
pub use remote::Remote;
pub use revision::{CommitId, ReferenceName, Revision, RevisionError, RevisionHint};
pub use ssh_transport::SshClient;
pub use transport::DuplexStream;
