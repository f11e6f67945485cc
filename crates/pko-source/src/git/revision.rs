//! Which commit is meant. Pure: the text of a field and the references of a server in, a commit out.
//!
//! A text means the first of these that exists, always in this order:
//!
//! 1. 40 or 64 hexadecimal digits: that commit, without asking anyone
//! 2. `HEAD`: the commit that the server shows
//! 3. `refs/…`: that reference, and no other
//! 4. the branch of that name (`refs/heads/…`)
//! 5. the tag of that name (`refs/tags/…`)
//! 6. anything else beneath `refs/` (`pull/1/head`, `heads/main`, `tags/v1`)
//! 7. a remote branch of that name (`refs/remotes/…`)
//!
//! Git's own order for short names has tags before branches; the field of a Stack is called `branch`, and who
//! writes a branch's name there must not get another commit because someone pushed a tag.

use std::{fmt, str::FromStr};

use gix_hash::ObjectId;

use super::references::{References, Target};

/// The longest name that we ask for; a server's filesystem ends at 255 bytes for each part.
const LONGEST: usize = 1024;

/// The id of a commit, in full.
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
                text: presentable(text),
            })
    }
}

/// What the text of a field asks for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// This commit
    Commit(CommitId),
    /// A reference with a name that is valid
    Reference(ReferenceName),
}

/// The name of a reference as a user wrote it: `HEAD`, in full or short.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReferenceName(String);

/// Why there is no commit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    /// It cannot be the name of anything.
    #[error(
        "{text:?} is not a valid revision; use a branch, a tag, a full reference such as refs/heads/main or a commit's 40 digits"
    )]
    Invalid {
        /// The text, so far as it can be shown
        text: String,
    },
    /// There is no such reference.
    #[error("no commits found for ref {text:?}{hint}")]
    NotFound {
        /// What was asked for
        text: String,
        /// What may have been meant
        hint: Hint,
    },
}

/// What may have been meant by a name that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Nothing is known
    None,
    /// The repository has nothing in it
    EmptyRepository,
    /// A name that is almost the same
    Nearest(String),
    /// The first digits of a commit, perhaps
    Abbreviated,
}

impl fmt::Display for Hint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::EmptyRepository => formatter.write_str("; the repository is empty"),
            Self::Nearest(name) => write!(formatter, "; did you mean {name:?}?"),
            Self::Abbreviated => {
                formatter.write_str("; if it is a commit, write all of its 40 digits")
            }
        }
    }
}

impl Revision {
    /// Reads the text of a field.
    pub fn parse(text: &str) -> Result<Self, RevisionError> {
        let text = text.trim();
        if is_full_hash(text) {
            return text.parse().map(Self::Commit);
        }
        let valid = text.len() <= LONGEST
            && !text.starts_with('-')
            && !text.chars().any(char::is_control)
            && gix_validate::reference::name_partial(text.into()).is_ok();
        if !valid {
            return Err(RevisionError::Invalid {
                text: presentable(text),
            });
        }
        Ok(Self::Reference(ReferenceName(text.to_owned())))
    }

    /// The commit, if it takes no server to know it.
    #[must_use]
    pub fn commit(&self) -> Option<CommitId> {
        match self {
            Self::Commit(commit) => Some(*commit),
            Self::Reference(_) => None,
        }
    }

    /// The full names that it may have, first of all the one that counts first; none for a commit.
    #[must_use]
    pub fn candidates(&self) -> Vec<String> {
        match self {
            Self::Commit(_) => Vec::new(),
            Self::Reference(name) => name.candidates(),
        }
    }

    /// The commit, among the references of a server. A hint costs a look at all of its names, which is up
    /// to the caller: see [`References::nearest`].
    pub fn resolve(&self, references: &References) -> Result<CommitId, RevisionError> {
        self.resolve_target(references).map(Target::commit)
    }

    /// The same with the tag that leads to the commit, which is what a server shows.
    pub(super) fn resolve_target(&self, references: &References) -> Result<Target, RevisionError> {
        let name = match self {
            Self::Commit(commit) => return Ok(Target::of(*commit)),
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

/// All digits of a commit: SHA-1 has 40, SHA-256 has 64.
fn is_full_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && is_hex(text)
}

/// Only digits of a hash, but not all of them.
pub(super) fn is_abbreviated(text: &str) -> bool {
    (4..40).contains(&text.len()) && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn presentable(text: &str) -> String {
    text.chars()
        .filter(|each| !each.is_control())
        .take(64)
        .collect()
}

#[cfg(test)]
#[path = "revision_tests.rs"]
mod tests;
