use pko_auth::Redacted;

/// Credentials for a git server. Secrets are redacted when printed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Credentials {
    /// The address may still contain a user and a password.
    #[default]
    Anonymous,
    Basic {
        username: String,
        password: Redacted,
    },
    /// A personal access token, sent as the password of user `git`.
    Token(Redacted),
    Ssh(SshKey),
    /// A GitHub App, whose installation token is requested from the API.
    GithubApp(GithubApp),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SshKey {
    pub private_key: Redacted,
    pub passphrase: Option<Redacted>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GithubApp {
    pub app_id: String,
    pub installation_id: String,
    pub private_key: Redacted,
}
