//! The poller's questions to git servers.

use std::{error::Error, fmt};

use super::{Answer, Blocking, BlockingLister, ListFailure, Question};
use crate::{
    git::{
        Address, Client, CommitId, Credentials, GitError, Limits, Remote, Revision, Scheme,
        SshClient,
    },
    ssh::{KnownHostFiles, KnownHosts},
};

/// A repository, for all who show it the same credentials and trust the same keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GitRepository {
    /// Where it is
    pub address: Address,
    /// Who we are to it
    pub credentials: Credentials,
    /// The text of `knownHosts` in the auth Secret
    pub known_hosts: Option<String>,
}

/// Why there is no commit: all of the reasons, the last one last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListError {
    /// In words
    pub message: String,
    /// It may pass by itself
    pub transient: bool,
    /// The server answered, and has no such revision
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

/// Asks git servers for the commits of branches and tags.
#[derive(Debug)]
pub struct GitLister {
    client: Client,
    host_files: KnownHostFiles,
    limits: Limits,
}

impl GitLister {
    /// With this way to servers, to which SSH is added, with the servers that these files know.
    #[must_use]
    pub fn new(client: Client, host_files: KnownHostFiles) -> Self {
        Self {
            client,
            host_files,
            limits: Limits::default(),
        }
    }

    fn client(&self, repository: &GitRepository) -> Client {
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

    fn list(&self, question: Question<Blocking<Self>>) -> Answer<Blocking<Self>> {
        let repository = &question.repository;
        let client = self.client(repository);
        let remote = Remote {
            client: &client,
            address: &repository.address,
            credentials: &repository.credentials,
            deadline: question.deadline,
            limits: self.limits,
        };
        let references = remote.look_up(&question.revisions);
        let references = references.map_err(|error| ListFailure {
            error: ListError::from(&error),
            retry_after: error.retry_after(),
        })?;
        let commit = |revision: &Revision| {
            let found = revision.resolve(&references);
            found.map_err(|error| ListError::from(&GitError::from(remote.with_hint(error))))
        };
        Ok(question.revisions.iter().map(commit).collect())
    }
}
