//! Git: addresses, credentials, revisions; listing the references of a server, and fetching one commit.

mod credentials;

pub use credentials::{Credentials, GithubApp, SshKey};
