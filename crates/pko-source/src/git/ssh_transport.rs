//! Git over SSH, by this crate's SSH client.

use super::{Address, CredentialKind, Credentials, DuplexStream, GitError, SshConnector, SshKey};
use crate::{
    Deadline,
    ssh::{self, KnownHosts, SshError, SshTarget},
};

/// Connects only to servers whose keys are known.
#[derive(Debug, Clone)]
pub struct SshClient {
    known_hosts: KnownHosts,
}

impl SshClient {
    #[must_use]
    pub fn new(known_hosts: KnownHosts) -> Self {
        Self { known_hosts }
    }
}

impl SshConnector for SshClient {
    fn upload_pack(
        &self,
        address: &Address,
        credentials: &Credentials,
        deadline: Deadline,
    ) -> Result<DuplexStream, GitError> {
        let key = private_key(address, credentials)?;
        let connect = |error| connect_error(address, error);
        let (host, path) = (address.host(), address.path());
        let target = SshTarget::upload_pack(host, Some(address.port()), address.user(), path);
        let target = target.map_err(connect)?;
        let session = ssh::connect(&target, key, &self.known_hosts, deadline).map_err(connect)?;
        let (reader, writer) = session.split();
        Ok(DuplexStream {
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
