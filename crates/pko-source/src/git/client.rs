//! Ways to git servers, and what they need.

use std::{fmt, sync::Arc};

use super::{
    Address, CredentialKind, Credentials, GitError, GithubApp, Scheme,
    http::{HttpAuth, HttpClient, HttpConnection, HttpSettings},
    transport::{Connection, Duplex, Stream},
};
use crate::{Deadline, Redacted};

/// Starts `git-upload-pack` on a server behind SSH.
pub trait SshConnect: Send + Sync {
    /// Connects with the key, as the user of the address or else `git`, and runs the command for the path of
    /// the address. Reading and writing end with an error at the deadline.
    fn upload_pack(
        &self,
        address: &Address,
        credentials: &Credentials,
        deadline: Deadline,
    ) -> Result<Duplex, GitError>;
}

/// Has tokens for apps of GitHub's.
pub trait AppTokens: Send + Sync {
    /// A token for this app.
    fn token(&self, app: &GithubApp, deadline: Deadline) -> Result<Redacted<String>, GitError>;
}

/// Ways to git servers. A copy shares everything.
#[derive(Clone)]
pub struct Client {
    http: HttpClient,
    ssh: Option<Arc<dyn SshConnect>>,
    app_tokens: Option<Arc<dyn AppTokens>>,
}

impl Client {
    /// A client with proxies and certificates by the usual variables.
    pub fn from_environment(settings: &HttpSettings) -> Result<Self, GitError> {
        HttpClient::from_environment(settings).map(Self::new)
    }

    /// A client for HTTP alone.
    #[must_use]
    pub fn new(http: HttpClient) -> Self {
        Self {
            http,
            ssh: None,
            app_tokens: None,
        }
    }

    /// The same, for SSH as well.
    #[must_use]
    pub fn with_ssh(self, ssh: Arc<dyn SshConnect>) -> Self {
        Self {
            ssh: Some(ssh),
            ..self
        }
    }

    /// The same, for apps of GitHub's as well.
    #[must_use]
    pub fn with_app_tokens(self, app_tokens: Arc<dyn AppTokens>) -> Self {
        Self {
            app_tokens: Some(app_tokens),
            ..self
        }
    }

    pub(super) fn connect<'a>(
        &'a self,
        address: &Address,
        credentials: &Credentials,
        deadline: Deadline,
    ) -> Result<Box<dyn Connection + 'a>, GitError> {
        if address.scheme() == Scheme::Ssh {
            let ssh = self.ssh.as_ref().ok_or_else(|| GitError::Protocol {
                address: address.to_string(),
                problem: "there is no SSH here",
            })?;
            let duplex = ssh.upload_pack(address, credentials, deadline)?;
            return Ok(Box::new(Stream::new(address, duplex)));
        }
        let auth = self.http_auth(address, credentials, deadline)?;
        Ok(Box::new(HttpConnection::new(
            &self.http, address, auth, deadline,
        )))
    }

    fn http_auth(
        &self,
        address: &Address,
        credentials: &Credentials,
        deadline: Deadline,
    ) -> Result<Option<HttpAuth>, GitError> {
        match (credentials, &self.app_tokens) {
            (Credentials::GithubApp(app), Some(tokens)) => {
                let token = tokens.token(app, deadline)?;
                Ok(Some(HttpAuth::token(CredentialKind::GithubApp, &token)))
            }
            _ => HttpAuth::of(address, credentials),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Client")
    }
}
