//! The `Authorization` header for git over HTTP. Does no I/O.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use pko_auth::Redacted;

use super::super::{Address, CredentialKind, Credentials, GitError};

#[derive(Clone)]
pub(crate) struct HttpAuth {
    kind: CredentialKind,
    header: Redacted,
    /// Secrets that a server may echo and that must not appear in errors.
    secrets: Vec<Redacted>,
}

impl HttpAuth {
    /// Builds the header from the credentials or from the address. A GitHub App's token must be
    /// requested before.
    pub(crate) fn of(
        address: &Address,
        credentials: &Credentials,
    ) -> Result<Option<Self>, GitError> {
        let misfit = |credential, hint| GitError::CredentialsDoNotFit {
            address: address.to_string(),
            credential,
            hint,
        };
        match credentials {
            Credentials::Anonymous => Ok(Self::of_address(address)),
            Credentials::Basic { username, password } => Ok(Some(Self::basic(
                CredentialKind::Basic,
                username,
                password.expose(),
            ))),
            Credentials::Token(token) => Ok(Some(Self::token(CredentialKind::Token, token))),
            Credentials::Ssh(_) => Err(misfit(
                CredentialKind::Ssh,
                "use an address such as git@host:path, or an access token",
            )),
            Credentials::GithubApp(_) => Err(misfit(
                CredentialKind::GithubApp,
                "no GitHub API is configured",
            )),
        }
    }

    /// A token is the password of user `git`.
    pub(crate) fn token(kind: CredentialKind, token: &Redacted) -> Self {
        Self::basic(kind, "git", token.expose())
    }

    /// Some servers take a user without a password for a token.
    fn of_address(address: &Address) -> Option<Self> {
        let (user, password) = (address.user(), address.password());
        if user.is_none() && password.is_none() {
            return None;
        }
        let kind = CredentialKind::Address;
        Some(Self::basic(
            kind,
            user.unwrap_or_default(),
            password.unwrap_or_default(),
        ))
    }

    fn basic(kind: CredentialKind, user: &str, password: &str) -> Self {
        let encoded = STANDARD.encode(format!("{user}:{password}"));
        // In an address, the user may be a token.
        let user = if kind == CredentialKind::Address {
            user
        } else {
            ""
        };
        let secrets = [encoded.as_str(), password, user]
            .into_iter()
            .filter(|secret| !secret.is_empty())
            .map(|secret| Redacted::new(secret.to_owned()))
            .collect();
        Self {
            kind,
            header: Redacted::new(format!("Basic {encoded}")),
            secrets,
        }
    }

    pub(super) fn kind(&self) -> CredentialKind {
        self.kind
    }

    pub(super) fn header(&self) -> &str {
        self.header.expose()
    }

    pub(super) fn redact_secrets(&self, words: &str) -> String {
        self.secrets.iter().fold(words.to_owned(), |words, secret| {
            words.replace(secret.expose(), "[redacted]")
        })
    }
}

impl fmt::Debug for HttpAuth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HttpAuth({})", self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(address: &str, credentials: &Credentials) -> Option<(CredentialKind, String)> {
        let address = Address::parse(address).unwrap();
        let auth = HttpAuth::of(&address, credentials).unwrap()?;
        let decoded = STANDARD
            .decode(auth.header().strip_prefix("Basic ").unwrap())
            .unwrap();
        Some((auth.kind(), String::from_utf8(decoded).unwrap()))
    }

    #[test]
    fn http_auth_header_for_each_credential() {
        let secret = |text: &str| Redacted::new(text.to_owned());
        let (plain, with_user) = ("https://h/r", "https://me:secret@h/r");
        let basic = Credentials::Basic {
            username: "u".to_owned(),
            password: secret("p"),
        };
        let token = Credentials::Token(secret("t"));
        let found = |kind, text: &str| Some((kind, text.to_owned()));
        assert_eq!(header(plain, &Credentials::Anonymous), None);
        assert_eq!(header(plain, &basic), found(CredentialKind::Basic, "u:p"));
        assert_eq!(header(plain, &token), found(CredentialKind::Token, "git:t"));
        assert_eq!(
            header(with_user, &Credentials::Anonymous),
            found(CredentialKind::Address, "me:secret")
        );
        assert_eq!(
            header(with_user, &token),
            found(CredentialKind::Token, "git:t")
        );
        assert_eq!(
            header("https://t@h/r", &Credentials::Anonymous),
            found(CredentialKind::Address, "t:")
        );
    }

    #[test]
    fn http_auth_redacts_echoed_secrets() {
        let address = Address::parse("https://h/r").unwrap();
        let token = Credentials::Token(Redacted::new("canary".to_owned()));
        let auth = HttpAuth::of(&address, &token).unwrap().unwrap();
        let echo = format!("bad token canary in {}", auth.header());
        assert_eq!(
            auth.redact_secrets(&echo),
            "bad token [redacted] in Basic [redacted]"
        );
        assert_eq!(format!("{auth:?}"), "HttpAuth(an access token)");
    }

    #[test]
    fn http_auth_rejects_ssh_key() {
        let address = Address::parse("https://h/r").unwrap();
        let key = Credentials::Ssh(crate::git::SshKey {
            private_key: Redacted::new("canary".to_owned()),
            passphrase: None,
        });
        let error = HttpAuth::of(&address, &key).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("https://h/r does not support an SSH key"),
            "{error}"
        );
    }
}
