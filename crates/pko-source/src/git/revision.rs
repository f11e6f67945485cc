//! Resolves a revision to a commit. Does no I/O.
//!
//! A revision is the first of these that exists:
//!
//! 1. 40 or 64 hexadecimal digits: that commit, without a request
//! 2. `HEAD`: the server's `HEAD`
//! 3. `refs/…`: that reference
//! 4. the branch of that name (`refs/heads/…`)
//! 5. the tag of that name (`refs/tags/…`)
//! 6. anything else below `refs/` (`pull/1/head`, `heads/main`, `tags/v1`)
//! 7. the remote branch of that name (`refs/remotes/…`)
//!
//! Git prefers tags over branches. The field of a Stack is called `branch`, so a pushed tag must
//! not change which commit it names.

use std::{fmt, str::FromStr};

use gix_hash::ObjectId;

use super::references::{ReferenceTarget, References};

/// File systems of servers limit each component to 255 bytes.
const MAX_NAME_BYTES: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitId(pub(crate) ObjectId);

impl fmt::Display for CommitId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.to_hex())
    }
}

impl FromStr for CommitId {
    type Err = RevisionError;

    fn from_str(text: &str) -> Result<Self, RevisionError> {
        ObjectId::from_hex(text.to_ascii_lowercase().as_bytes())
            .map(Self)
            .map_err(|_| RevisionError::Invalid {
                text: sanitize(text),
            })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    Commit(CommitId),
    Reference(ReferenceName),
}

/// As the user wrote it: `HEAD`, a full name or a short name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReferenceName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    #[error(
        "{text:?} is not a valid revision; use a branch, a tag, a full reference such as refs/heads/main or a commit's 40 digits"
    )]
    Invalid { text: String },
    #[error("no commits found for ref {text:?}{hint}")]
    NotFound { text: String, hint: RevisionHint },
}

/// A suggestion for a name that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RevisionHint {
    None,
    EmptyRepository,
    DidYouMean(String),
    /// Possibly an abbreviated hash.
    Abbreviated,
}

impl fmt::Display for RevisionHint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::EmptyRepository => formatter.write_str("; the repository is empty"),
            Self::DidYouMean(name) => write!(formatter, "; did you mean {name:?}?"),
            Self::Abbreviated => {
                formatter.write_str("; if it is an abbreviated commit, use all 40 digits")
            }
        }
    }
}

impl Revision {
    pub fn parse(text: &str) -> Result<Self, RevisionError> {
        let text = text.trim();
        if is_full_hash(text) {
            return text.parse().map(Self::Commit);
        }
        let valid = text.len() <= MAX_NAME_BYTES
            && !text.starts_with('-')
            && !text.chars().any(char::is_control)
            && gix_validate::reference::name_partial(text.into()).is_ok();
        if !valid {
            return Err(RevisionError::Invalid {
                text: sanitize(text),
            });
        }
        Ok(Self::Reference(ReferenceName(text.to_owned())))
    }

    /// The commit, if no server is needed to know it.
    #[must_use]
    pub fn commit(&self) -> Option<CommitId> {
        match self {
            Self::Commit(commit) => Some(*commit),
            Self::Reference(_) => None,
        }
    }

    /// The full names that it may stand for, in order of precedence.
    #[must_use]
    pub fn candidates(&self) -> Vec<String> {
        match self {
            Self::Commit(_) => Vec::new(),
            Self::Reference(name) => name.candidates(),
        }
    }

    /// Finds the commit among the references of a server.
    pub fn resolve(&self, references: &References) -> Result<CommitId, RevisionError> {
        self.resolve_target(references).map(ReferenceTarget::commit)
    }

    /// Like [`Self::resolve`], with the tag that the server advertises.
    pub(super) fn resolve_target(
        &self,
        references: &References,
    ) -> Result<ReferenceTarget, RevisionError> {
        let name = match self {
            Self::Commit(commit) => return Ok(ReferenceTarget::of(*commit)),
            Self::Reference(name) => name,
        };
        name.candidates()
            .iter()
            .find_map(|candidate| references.targets.get(candidate).copied())
            .ok_or_else(|| RevisionError::NotFound {
                text: name.0.clone(),
                hint: references.hint(&name.0),
            })
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit(commit) => commit.fmt(formatter),
            Self::Reference(name) => formatter.write_str(&name.0),
        }
    }
}

impl ReferenceName {
    fn candidates(&self) -> Vec<String> {
        let name = &self.0;
        if name == "HEAD" || name.starts_with("refs/") {
            return vec![name.clone()];
        }
        ["refs/heads/", "refs/tags/", "refs/", "refs/remotes/"]
            .map(|prefix| format!("{prefix}{name}"))
            .into()
    }
}

/// SHA-1 has 40 digits, SHA-256 has 64.
fn is_full_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && is_hex(text)
}

pub(super) fn is_abbreviated(text: &str) -> bool {
    (4..40).contains(&text.len()) && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn sanitize(text: &str) -> String {
    text.chars()
        .filter(|each| !each.is_control())
        .take(64)
        .collect()
}

#[cfg(test)]
mod tests;
