//! The references of a server that match a request. Does no I/O.

use std::collections::BTreeMap;

use gix_hash::ObjectId;

use super::{
    revision::{CommitId, RevisionHint, is_abbreviated},
    similar_name::SimilarName,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReferenceTarget {
    /// A commit, or the object of an annotated tag.
    pub(crate) id: ObjectId,
    pub(crate) peeled: Option<ObjectId>,
}

impl ReferenceTarget {
    pub(crate) fn of(commit: CommitId) -> Self {
        Self {
            id: commit.0,
            peeled: None,
        }
    }

    pub(crate) fn commit(self) -> CommitId {
        CommitId(self.peeled.unwrap_or(self.id))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct References {
    pub(super) targets: BTreeMap<String, ReferenceTarget>,
    /// The branch that `HEAD` points to.
    pub(super) head: Option<String>,
    pub(super) nearest: Option<String>,
    pub(super) empty_repository: bool,
}

impl References {
    /// The commit of a reference, by its full name. Annotated tags are peeled.
    #[must_use]
    pub fn commit(&self, full_name: &str) -> Option<CommitId> {
        self.targets.get(full_name).map(|target| target.commit())
    }

    /// The branch that `HEAD` points to.
    #[must_use]
    pub fn head(&self) -> Option<&str> {
        self.head.as_deref()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, CommitId)> {
        self.targets
            .iter()
            .map(|(name, target)| (name.as_str(), target.commit()))
    }

    /// The most similar name to one that does not exist.
    #[must_use]
    pub fn similar_name(&self, wanted: &str) -> Option<String> {
        let mut nearest = SimilarName::new(wanted);
        for name in self.targets.keys() {
            nearest.consider(name);
        }
        nearest.into_best()
    }

    pub(super) fn hint(&self, wanted: &str) -> RevisionHint {
        let nearest = self.nearest.clone().or_else(|| self.similar_name(wanted));
        match nearest {
            _ if self.empty_repository => RevisionHint::EmptyRepository,
            Some(name) => RevisionHint::DidYouMean(name),
            None if is_abbreviated(wanted) => RevisionHint::Abbreviated,
            None => RevisionHint::None,
        }
    }
}

#[cfg(test)]
impl References {
    /// `(name, id, commit of the tag)`.
    pub(super) fn of(each: &[(&str, &str, Option<&str>)]) -> Self {
        let id = |text: &str| ObjectId::from_hex(text.repeat(40).as_bytes()).unwrap();
        let targets = each
            .iter()
            .map(|(name, own, peeled)| {
                let target = ReferenceTarget {
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
