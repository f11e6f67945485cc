//! A git repository as the source of a Stack.

use std::{fmt, time::Duration};

use pko_api::{Stack, auto::v1alpha1::GitSource, pulumi::v1::StackSpec};

use super::{
    Location, ProgramSource,
    login::{self, GitLogin, SecretKey},
    present,
};

/// A branch is polled this often at least.
const LONGEST_POLL_INTERVAL: Duration = Duration::from_hours(24);

/// A git repository and a revision of it.
#[derive(Clone, PartialEq, Eq)]
pub struct GitSourceRef {
    /// The address from the spec, which may contain a password.
    pub repository: String,
    pub revision: GitRevision,
    pub login: GitLogin,
    /// `spec.resyncFrequencySeconds`: how often a branch is polled.
    pub interval: Option<Duration>,
}

impl fmt::Debug for GitSourceRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("GitSourceRef");
        let fields = fields.field("revision", &self.revision);
        fields.field("login", &self.login).finish_non_exhaustive()
    }
}

/// The revision of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitRevision {
    /// A full hash, which needs no request to the server.
    Commit(String),
    /// A reference from `spec.commit`, which is resolved when it is needed.
    Once(String),
    /// A branch, which is polled.
    Followed(String),
}

impl GitRevision {
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Commit(text) | Self::Once(text) | Self::Followed(text) => text,
        }
    }
}

/// Whether a Stack refers to a repository. A field with its zero value does not count. Upstream
/// counts even `shallow: false`, and then reports a missing address.
pub(super) fn is_present(spec: &StackSpec) -> bool {
    let texts = [
        &spec.project_repo,
        &spec.branch,
        &spec.commit,
        &spec.repo_dir,
        &spec.git_auth_secret,
    ];
    let has_text = texts
        .into_iter()
        .any(|text| present(text.as_ref()).is_some());
    has_text || spec.shallow == Some(true) || spec.git_auth.is_some()
}

/// The repository that a Stack refers to.
///
/// # Errors
/// Upstream's message about an invalid reference.
pub(super) fn source_ref(stack: &Stack) -> Result<GitSourceRef, String> {
    let spec = &stack.spec;
    let login = login::login(stack)?;
    let repository = present(spec.project_repo.as_ref()).ok_or("missing \"projectRepo\"")?;
    let seconds = spec.resync_frequency_seconds;
    let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
    Ok(GitSourceRef {
        repository: repository.clone(),
        revision: revision(spec)?,
        login,
        interval: seconds
            .filter(|seconds| *seconds > 0)
            .map(|seconds| Duration::from_secs(seconds).min(LONGEST_POLL_INTERVAL)),
    })
}

fn revision(spec: &StackSpec) -> Result<GitRevision, String> {
    let fields = (present(spec.commit.as_ref()), present(spec.branch.as_ref()));
    let (text, revision): (_, fn(String) -> GitRevision) = match fields {
        (Some(_), Some(_)) => {
            return Err("only one of \"commit\" or \"branch\" should be specified".to_owned());
        }
        (None, None) => return Err("missing \"commit\" or \"branch\"".to_owned()),
        (Some(commit), None) => (commit, GitRevision::Once),
        (None, Some(branch)) => (branch, GitRevision::Followed),
    };
    // A branch may have such a name; upstream treats it as a commit, too.
    if is_full_hash(text) {
        return Ok(GitRevision::Commit(text.clone()));
    }
    Ok(revision(text.clone()))
}

/// A complete hash: SHA-1 has 40 digits, SHA-256 has 64.
fn is_full_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The source for a commit, in the form that upstream stores, with the same fields omitted.
/// `known_hosts` refers to the keys of SSH servers, if the user provides some.
#[must_use]
pub fn git_source(stack: &Stack, commit: &str, known_hosts: Option<&SecretKey>) -> ProgramSource {
    let spec = &stack.spec;
    let git = GitSource {
        url: present(spec.project_repo.as_ref()).cloned(),
        reference: Some(commit.to_owned()),
        dir: present(spec.repo_dir.as_ref()).cloned(),
        shallow: spec.shallow.filter(|shallow| *shallow),
        auth: login::selectors(spec, known_hosts),
    };
    ProgramSource {
        revision: commit.to_owned(),
        location: Location::Git(Box::new(git)),
    }
}
