//! The ways to git servers that are more than HTTP: SSH, and tokens for apps of GitHub's.

use jiff::Timestamp;

use super::{
    Address, AppTokens, CredentialKind, Credentials, Duplex, GitError, GithubApp, GithubTokens,
    SshConnect, SshKey,
};
use crate::{
    Deadline, Redacted,
    ssh::{self, KnownHosts, SshError, Target},
};

/// SSH, to servers whose keys are known.
#[derive(Debug, Clone)]
pub struct SshClient {
    known_hosts: KnownHosts,
}

impl SshClient {
    /// For these servers.
    #[must_use]
    pub fn new(known_hosts: KnownHosts) -> Self {
        Self { known_hosts }
    }
}

impl SshConnect for SshClient {
    fn upload_pack(
        &self,
        address: &Address,
        credentials: &Credentials,
        deadline: Deadline,
    ) -> Result<Duplex, GitError> {
        let key = private_key(address, credentials)?;
        let connect = |error| connect_error(address, error);
        let (host, path) = (address.host(), address.path());
        let target = Target::upload_pack(host, Some(address.port()), address.user(), path);
        let target = target.map_err(connect)?;
        let session = ssh::connect(&target, key, &self.known_hosts, deadline).map_err(connect)?;
        let (reader, writer) = session.split();
        Ok(Duplex {
            reader: Box::new(reader),
            writer: Box::new(writer),
        })
    }
}

fn private_key<'a>(
    address: &Address,
    credentials: &'a Credentials,
) -> Result<&'a SshKey, GitError> {
    let credential = match credentials {
        Credentials::Ssh(key) => return Ok(key),
        Credentials::Anonymous => CredentialKind::None,
        Credentials::Basic { .. } => CredentialKind::Basic,
        Credentials::Token(_) => CredentialKind::Token,
        Credentials::GithubApp(_) => CredentialKind::GithubApp,
    };
    Err(GitError::CredentialsDoNotFit {
        address: address.to_string(),
        credential,
        hint: "SSH needs a private key (`sshPrivateKey`)",
    })
}

fn connect_error(address: &Address, error: SshError) -> GitError {
    let address = address.to_string();
    match error {
        SshError::Deadline { .. } => GitError::Deadline { address },
        error => GitError::Connect {
            address,
            transient: matches!(
                error,
                SshError::Unreachable { .. } | SshError::Closed { .. } | SshError::Thread(_)
            ),
            source: Box::new(error),
        },
    }
}

impl AppTokens for GithubTokens {
    fn token(&self, app: &GithubApp, deadline: Deadline) -> Result<Redacted<String>, GitError> {
        Self::token(self, app, Timestamp::now(), deadline).map_err(|error| GitError::Connect {
            address: self.api().to_owned(),
            transient: error.is_transient(),
            source: Box::new(error),
        })
    }
}
