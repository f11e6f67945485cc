//! Git: addresses, credentials, revisions; listing the references of a server, and fetching one commit.
//!
//! ```text
//!   Remote ─▶ Client ─┬─▶ http (ureq) ──┬─▶ protocol ─▶ references, or a pack
//!                     └─▶ SshConnect ───┘
//! ```

mod address;
mod address_parts;
mod advertisement;
mod bounded;
mod capabilities;
mod checkout;
mod client;
mod credentials;
mod error;
mod error_kinds;
mod fetch;
#[doc(hidden)]
pub mod fuzz;
mod github_app;
mod gitmodules;
mod http;
mod limits;
mod list;
mod nearest;
mod pack;
mod packets;
mod protocol;
mod references;
mod repository;
mod revision;
mod submodules;
mod transport;
mod ways;

pub use address::{Address, AddressError, Scheme};
pub use checkout::TreeProblem;
pub use client::{AppTokens, Client, SshConnect};
pub use credentials::{Credentials, GithubApp, SshKey};
pub use error::{CredentialKind, GitError, LimitExceeded, RedirectRefusal};
pub use fetch::{FetchOptions, Fetched};
pub use github_app::{GITHUB_API, GithubAppError, GithubTokens};
pub use http::{HttpClient, HttpSettings};
pub use limits::Limits;
pub use list::Remote;
pub use references::References;
pub use revision::{CommitId, Hint, ReferenceName, Revision, RevisionError};
pub use transport::Duplex;
pub use ways::SshClient;
