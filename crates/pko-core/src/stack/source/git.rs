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

/// A git repository, and what of it.
#[derive(Clone, PartialEq, Eq)]
pub struct GitSourceRef {
    /// Its address as the user wrote it, which may have a password in it.
    pub repository: String,
    /// Which commit.
    pub revision: GitRevision,
    /// Who we are to its server.
    pub login: GitLogin,
    /// How often the user wants a branch to be looked at, if he says it.
    pub interval: Option<Duration>,
}

impl fmt::Debug for GitSourceRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("GitWanted");
        let fields = fields.field("revision", &self.revision);
        fields.field("login", &self.login).finish_non_exhaustive()
    }
}

/// Which commit of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitRevision {
    /// This one, for which nobody has to be asked.
    Commit(String),
    /// What a reference is now, which is asked when it matters.
    Once(String),
    /// What a reference is at any time.
    Followed(String),
}

impl GitRevision {
    /// The text of the field.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Commit(text) | Self::Once(text) | Self::Followed(text) => text,
        }
    }
}

/// Whether a Stack names a repository. A field that has its zero value says nothing: upstream takes even
/// `shallow: false` for a repository, and then misses its address.
pub(super) fn is_present(spec: &StackSpec) -> bool {
    let texts = [
        &spec.project_repo,
        &spec.branch,
        &spec.commit,
        &spec.repo_dir,
        &spec.git_auth_secret,
    ];
    let said = texts
        .into_iter()
        .any(|text| present(text.as_ref()).is_some());
    said || spec.shallow == Some(true) || spec.git_auth.is_some()
}

/// What a Stack wants of a repository, or upstream's words for what is wrong with that.
pub(super) fn wanted(stack: &Stack) -> Result<GitSourceRef, String> {
    let spec = &stack.spec;
    let login = login::wanted(stack)?;
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
    // A branch may be called so, too; upstream takes it for a commit as well.
    if is_full_hash(text) {
        return Ok(GitRevision::Commit(text.clone()));
    }
    Ok(revision(text.clone()))
}

/// All digits of a commit: SHA-1 has 40, SHA-256 has 64.
fn is_full_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The source that a repository is at a commit, in the shape that upstream stores: whatever is left out there is left
/// out here. `known_hosts` is where the keys of SSH servers are, if the user gave some.
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
