//! Git: addresses, credentials, revisions; listing the references of a server, and fetching one commit.

mod credentials;
mod github_app;

pub use credentials::{Credentials, GithubApp, SshKey};
pub use github_app::{GITHUB_API, GithubAppError, GithubTokens};
