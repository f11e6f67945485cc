//! A git server with a repository, and a client.

use std::{
    error::Error,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use pko_auth::Redacted;
use pko_source::{
    Deadline,
    git::{
        Address, CommitId, Credentials, FetchOptions, FetchedCommit, GitClient, GitError,
        GitLimits, HttpSettings, Remote, Revision,
    },
};
use pko_testkit::git_server::{GitServer, TestRepository};
use tempfile::TempDir;

/// A call that takes this long has hung.
pub(crate) const LONG: Duration = Duration::from_mins(2);

/// A server with one repository, and a folder to fetch into.
pub(crate) struct GitFixture {
    pub(crate) server: GitServer,
    pub(crate) repository: TestRepository,
    pub(crate) client: GitClient,
    pub(crate) credentials: Credentials,
    pub(crate) limits: GitLimits,
    pub(crate) deadline: Duration,
    pub(crate) folder: TempDir,
}

impl GitFixture {
    pub(crate) fn new() -> Self {
        Self::with(GitServer::start)
    }

    pub(crate) fn with(start: impl FnOnce(&Path) -> std::io::Result<GitServer>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let served = folder.path().join("served");
        let repository = TestRepository::create(&served, "repository.git").unwrap();
        Self {
            server: start(&served).unwrap(),
            repository,
            client: client(&[]),
            credentials: Credentials::Anonymous,
            limits: GitLimits::default(),
            deadline: LONG,
            folder,
        }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url("repository.git")
    }

    pub(crate) fn served(&self) -> PathBuf {
        self.folder.path().join("served")
    }

    pub(crate) fn target(&self) -> PathBuf {
        self.folder.path().join("fetched/source")
    }

    pub(crate) fn ask<T>(
        &self,
        ask: impl FnOnce(Remote<'_>) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        self.ask_at(&self.url(), ask)
    }

    pub(crate) fn ask_at<T>(
        &self,
        url: &str,
        ask: impl FnOnce(Remote<'_>) -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        let address = Address::parse(url)?;
        ask(Remote {
            client: &self.client,
            address: &address,
            credentials: &self.credentials,
            deadline: Deadline::after(self.deadline),
            limits: self.limits,
        })
    }

    pub(crate) fn resolve(&self, revision: &str) -> Result<CommitId, GitError> {
        let revision = Revision::parse(revision)?;
        self.ask(|remote| remote.resolve(&revision))
    }

    pub(crate) fn fetch(&self, revision: &str, shallow: bool) -> Result<FetchedCommit, GitError> {
        self.fetch_with(revision, shallow, false)
    }

    pub(crate) fn fetch_with(
        &self,
        revision: &str,
        shallow: bool,
        submodules: bool,
    ) -> Result<FetchedCommit, GitError> {
        let revision = Revision::parse(revision)?;
        let options = FetchOptions {
            revision: &revision,
            shallow,
            submodules,
        };
        self.ask(|remote| remote.fetch(&options, &self.target()))
    }

    /// Runs git in the fetched folder.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git_in(&self.target(), arguments)
    }

    /// The names of all fetched files, without `.git`.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut files = Vec::new();
        collect(&self.target(), &self.target(), &mut files);
        files.sort();
        files
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.target().join(path)).unwrap()
    }

    /// Entries next to the target, which a fetch must not leave.
    pub(crate) fn left_beside(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.folder.path().join("fetched")) else {
            return Vec::new();
        };
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "source")
            .collect()
    }
}

/// A client that also trusts these certificates.
pub(crate) fn client(certificates: &[&str]) -> GitClient {
    let settings = HttpSettings {
        extra_certificates: certificates
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .collect(),
    };
    GitClient::from_environment(&settings).unwrap()
}

pub(crate) fn secret(text: &str) -> Redacted {
    Redacted::new(text.to_owned())
}

pub(crate) fn git_in(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git could not be started; install git");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {words}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() == OsStr::new(".git") {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            collect(root, &entry.path(), files);
        } else {
            let path = entry.path().strip_prefix(root).unwrap().to_owned();
            files.push(path.into_os_string().into_string().unwrap());
        }
    }
}

/// The error and its sources, in all formats.
pub(crate) fn all_text(error: &GitError) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(each) = source {
        text.extend([each.to_string(), format!("{each:?}")]);
        source = each.source();
    }
    text
}
