//! Who we are to a git server.

use crate::Redacted;

/// What is shown to a git server. None of it is printed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Credentials {
    /// Nothing; an address may still carry a user and a password.
    #[default]
    Anonymous,
    /// A user and a password over HTTP.
    Basic {
        /// The user
        username: String,
        /// Its password
        password: Redacted<String>,
    },
    /// A personal access token over HTTP, which is the password of a user `git`.
    Token(Redacted<String>),
    /// A private key over SSH.
    Ssh(SshKey),
    /// An app of GitHub's, for which a token is asked.
    GithubApp(GithubApp),
}

/// A private key, with what opens it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SshKey {
    /// OpenSSH's format or PEM
    pub private_key: Redacted<String>,
    /// If the key is encrypted
    pub passphrase: Option<Redacted<String>>,
}

/// An installation of a GitHub App.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GithubApp {
    /// The app
    pub app_id: String,
    /// Where it is installed
    pub installation_id: String,
    /// PKCS#1 or PKCS#8, in PEM
    pub private_key: Redacted<String>,
}
