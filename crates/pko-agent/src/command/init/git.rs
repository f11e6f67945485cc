//! Fetches a git repository as the source.

use std::{env, path::Path, sync::Arc};

use anyhow::Context;
use pko_source::{
    Deadline,
    git::{
        Address, Credentials, FetchOptions, GITHUB_API, GitClient, GitLimits, GithubTokens,
        HttpSettings, Remote, Revision, Scheme, SshClient,
    },
    ssh::{KnownHosts, KnownHostsFiles},
};

use super::{INIT_TIMEOUT, credentials::GitSettings};

/// Upstream's text.
const ENLIST: &str = "failed to create workspace, unable to enlist in git repo";

/// Fetches one commit. A target that already has it does not change.
pub(super) fn fetch(url: &str, revision: &str, target: &Path) -> anyhow::Result<()> {
    let address = Address::parse(url).context(ENLIST)?;
    let settings = GitSettings::from_environment(address.scheme(), |name| env::var(name).ok())?;
    let revision = Revision::parse(revision).context(ENLIST)?;
    let client = client(&address, &settings)?;
    let remote = Remote {
        client: &client,
        address: &address,
        credentials: &settings.credentials,
        deadline: Deadline::after(INIT_TIMEOUT),
        limits: GitLimits::default(),
    };
    let options = FetchOptions {
        revision: &revision,
        shallow: settings.shallow,
        submodules: settings.submodules,
    };
    tracing::info!(dir = %target.display(), url = %address, "about to clone into");
    let fetched = remote.fetch(&options, target).context(ENLIST)?;
    if fetched.already_present {
        tracing::info!(commit = %fetched.commit, "repository was previously checked out");
    }
    tracing::info!(dir = %target.display(), commit = %fetched.commit, "git artifact fetched");
    Ok(())
}

fn client(address: &Address, settings: &GitSettings) -> anyhow::Result<GitClient> {
    let client = GitClient::from_environment(&HttpSettings::default())?;
    if address.scheme() == Scheme::Ssh {
        let ssh = SshClient::new(known_hosts(settings));
        return Ok(client.with_ssh(Arc::new(ssh)));
    }
    let Credentials::GithubApp(_) = settings.credentials else {
        return Ok(client);
    };
    let api = settings.github_api_url.as_deref().unwrap_or(GITHUB_API);
    Ok(client.with_app_tokens(Arc::new(GithubTokens::new(api)?)))
}

fn known_hosts(settings: &GitSettings) -> KnownHosts {
    let hosts = KnownHosts::load(
        settings.known_hosts.as_deref(),
        &KnownHostsFiles::from_environment(),
    );
    for warning in hosts.warnings() {
        tracing::warn!(%warning, "Ignoring a line of the known hosts");
    }
    hosts
}
