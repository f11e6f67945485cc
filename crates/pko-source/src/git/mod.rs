//! Git: addresses, credentials, revisions; listing the references of a server, and fetching one commit.

mod address;
mod address_parts;
mod credentials;
mod github_app;
mod nearest;
mod references;
mod revision;

pub use address::{Address, AddressError, Scheme};
pub use credentials::{Credentials, GithubApp, SshKey};
pub use github_app::{GITHUB_API, GithubAppError, GithubTokens};
pub use references::References;
pub use revision::{CommitId, Hint, ReferenceName, Revision, RevisionError};
