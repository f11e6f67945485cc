//! Lists references of git servers for the poller.

use std::{error::Error, fmt};

use super::{Blocking, BlockingLister, ListFailure, ListRequest, ListResponse};
use crate::{
    git::{
        Address, CommitId, Credentials, GitClient, GitError, GitLimits, Remote, Revision, Scheme,
        SshClient,
    },
    ssh::{KnownHosts, KnownHostsFiles},
};

/// Subscribers share a request if address, credentials and known hosts agree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GitRepository {
    pub address: Address,
    pub credentials: Credentials,
    /// `knownHosts` of the git auth Secret.
    pub known_hosts: Option<String>,
}

/// The chain of messages, outermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListError {
    pub message: String,
    pub transient: bool,
    /// The server answered, and does not have the revision.
    pub missing: bool,
}

impl fmt::Display for ListError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl From<&GitError> for ListError {
    fn from(error: &GitError) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        Self {
            message,
            transient: error.is_transient(),
            missing: matches!(error, GitError::Revision(_)),
        }
    }
}

/// Resolves branches and tags to commits.
#[derive(Debug)]
pub struct GitLister {
    client: GitClient,
    host_files: KnownHostsFiles,
    limits: GitLimits,
}

impl GitLister {
    /// Adds SSH to the client, with the servers of these files.
    #[must_use]
    pub fn new(client: GitClient, host_files: KnownHostsFiles) -> Self {
        Self {
            client,
            host_files,
            limits: GitLimits::default(),
        }
    }

    fn client(&self, repository: &GitRepository) -> GitClient {
        let client = self.client.clone();
        if repository.address.scheme() != Scheme::Ssh {
            return client;
        }
        let hosts = KnownHosts::load(repository.known_hosts.as_deref(), &self.host_files);
        client.with_ssh(std::sync::Arc::new(SshClient::new(hosts)))
    }
}

impl BlockingLister for GitLister {
    type Repository = GitRepository;
    type Revision = Revision;
    type Commit = CommitId;
    type Error = ListError;

    fn host(&self, repository: &GitRepository) -> String {
        let address = &repository.address;
        format!("{}:{}", address.host(), address.port())
    }

    fn list(&self, request: ListRequest<Blocking<Self>>) -> ListResponse<Blocking<Self>> {
        let repository = &request.repository;
        let client = self.client(repository);
        let remote = Remote {
            client: &client,
            address: &repository.address,
            credentials: &repository.credentials,
            deadline: request.deadline,
            limits: self.limits,
        };
        let references = remote.look_up(&request.revisions);
        let references = references.map_err(|error| ListFailure {
            error: ListError::from(&error),
            retry_after: error.retry_after(),
        })?;
        let commit = |revision: &Revision| {
            let found = revision.resolve(&references);
            found.map_err(|error| ListError::from(&GitError::from(remote.with_hint(error))))
        };
        Ok(request.revisions.iter().map(commit).collect())
    }
}
