//! The git client: chooses the transport and the credentials for an address.

use std::{fmt, sync::Arc};

use pko_auth::Redacted;

use super::{
    Address, CredentialKind, Credentials, GitError, GithubApp, Scheme,
    http::{HttpAuth, HttpClient, HttpConnection, HttpSettings},
    transport::{Connection, DuplexStream, StreamConnection},
};
use crate::Deadline;

/// Starts `git-upload-pack` on a server over SSH.
pub trait SshConnector: Send + Sync {
    /// Connects as the user of the address (default `git`) and runs the command for its path. Reads
    /// and writes fail at the deadline.
    fn upload_pack(
        &self,
        address: &Address,
        credentials: &Credentials,
        deadline: Deadline,
    ) -> Result<DuplexStream, GitError>;
}

/// Provides tokens for GitHub Apps.
pub trait AppTokenProvider: Send + Sync {
    fn token(&self, app: &GithubApp, deadline: Deadline) -> Result<Redacted, GitError>;
}

/// A client for git servers. Cheap to clone.
#[derive(Clone)]
pub struct GitClient {
    http: HttpClient,
    ssh: Option<Arc<dyn SshConnector>>,
    app_tokens: Option<Arc<dyn AppTokenProvider>>,
}

impl GitClient {
    /// Reads proxies and certificates from the environment.
    pub fn from_environment(settings: &HttpSettings) -> Result<Self, GitError> {
        HttpClient::from_environment(settings).map(Self::new)
    }

    #[must_use]
    pub fn new(http: HttpClient) -> Self {
        Self {
            http,
            ssh: None,
            app_tokens: None,
        }
    }

    #[must_use]
    pub fn with_ssh(self, ssh: Arc<dyn SshConnector>) -> Self {
        Self {
            ssh: Some(ssh),
            ..self
        }
    }

    #[must_use]
    pub fn with_app_tokens(self, app_tokens: Arc<dyn AppTokenProvider>) -> Self {
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
                problem: "SSH is not configured",
            })?;
            let duplex = ssh.upload_pack(address, credentials, deadline)?;
            return Ok(Box::new(StreamConnection::new(address, duplex)));
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

impl fmt::Debug for GitClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("GitClient")
    }
}
