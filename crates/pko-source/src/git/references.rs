//! The references of a server, so far as someone wanted them. Pure.

use std::collections::BTreeMap;

use gix_hash::ObjectId;

use super::{
    nearest::Nearest,
    revision::{CommitId, Hint, is_abbreviated},
};

/// One reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    /// What it points to: a commit, or the object of an annotated tag
    pub(crate) id: ObjectId,
    /// What that tag is of
    pub(crate) peeled: Option<ObjectId>,
}

impl Target {
    /// A commit itself.
    pub(crate) fn of(commit: CommitId) -> Self {
        Self {
            id: commit.0,
            peeled: None,
        }
    }

    /// The commit that it leads to.
    pub(crate) fn commit(self) -> CommitId {
        CommitId(self.peeled.unwrap_or(self.id))
    }
}

/// References by their full names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct References {
    pub(super) targets: BTreeMap<String, Target>,
    /// The branch that `HEAD` stands for
    pub(super) head: Option<String>,
    pub(super) nearest: Option<String>,
    pub(super) empty_repository: bool,
}

impl References {
    /// The commit of a reference, by its full name; an annotated tag's is the commit that it is of.
    #[must_use]
    pub fn commit(&self, full_name: &str) -> Option<CommitId> {
        self.targets.get(full_name).map(|target| target.commit())
    }

    /// The branch that `HEAD` stands for.
    #[must_use]
    pub fn head(&self) -> Option<&str> {
        self.head.as_deref()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// There are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, CommitId)> {
        self.targets
            .iter()
            .map(|(name, target)| (name.as_str(), target.commit()))
    }

    /// The name that is nearest to one that does not exist.
    #[must_use]
    pub fn nearest(&self, wanted: &str) -> Option<String> {
        let mut nearest = Nearest::new(wanted);
        for name in self.targets.keys() {
            nearest.look_at(name);
        }
        nearest.found()
    }

    pub(super) fn hint(&self, wanted: &str) -> Hint {
        let nearest = self.nearest.clone().or_else(|| self.nearest(wanted));
        match nearest {
            _ if self.empty_repository => Hint::EmptyRepository,
            Some(name) => Hint::Nearest(name),
            None if is_abbreviated(wanted) => Hint::Abbreviated,
            None => Hint::None,
        }
    }
}

#[cfg(test)]
impl References {
    /// References for tests: `(name, id, id that the tag is of)`.
    pub(super) fn of(each: &[(&str, &str, Option<&str>)]) -> Self {
        let id = |text: &str| ObjectId::from_hex(text.repeat(40).as_bytes()).unwrap();
        let targets = each
            .iter()
            .map(|(name, own, peeled)| {
                let target = Target {
                    id: id(own),
                    peeled: peeled.map(id),
                };
                ((*name).to_owned(), target)
            })
            .collect();
        Self {
            targets,
            ..Self::default()
        }
    }
}
