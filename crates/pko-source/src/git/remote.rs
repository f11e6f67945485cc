//! Lists and resolves references. References that do not match take no memory.

use super::{
    Address, CommitId, Credentials, GitClient, GitError, GitLimits, References, Revision,
    RevisionError,
    advertisement::{AdvertisedReference, ProtocolError},
    error::LimitExceeded,
    protocol::UploadPackSession,
    references::ReferenceTarget,
    revision::RevisionHint,
    similar_name::SimilarName,
};
use crate::Deadline;

/// A repository on a server, with everything that a request needs.
#[derive(Debug, Clone, Copy)]
pub struct Remote<'a> {
    pub client: &'a GitClient,
    pub address: &'a Address,
    pub credentials: &'a Credentials,
    pub deadline: Deadline,
    pub limits: GitLimits,
}

impl Remote<'_> {
    /// All references whose full names start with one of these prefixes.
    pub fn list(&self, prefixes: &[String]) -> Result<References, GitError> {
        self.list_where(prefixes, &|_| true)
    }

    /// The references that these revisions may name, for [`Revision::resolve`].
    pub fn look_up<'r>(
        &self,
        revisions: impl IntoIterator<Item = &'r Revision>,
    ) -> Result<References, GitError> {
        let mut names: Vec<String> = revisions
            .into_iter()
            .flat_map(Revision::candidates)
            .collect();
        names.sort_unstable();
        names.dedup();
        let wanted = |name: &str| {
            names
                .binary_search_by(|each| each.as_str().cmp(name))
                .is_ok()
        };
        self.list_where(&names, &wanted)
    }

    /// The commit that a revision names. A full hash is not looked up.
    pub fn resolve(&self, revision: &Revision) -> Result<CommitId, GitError> {
        self.resolve_target(revision).map(ReferenceTarget::commit)
    }

    pub(super) fn resolve_target(&self, revision: &Revision) -> Result<ReferenceTarget, GitError> {
        if let Some(commit) = revision.commit() {
            return Ok(ReferenceTarget::of(commit));
        }
        let references = self.look_up([revision])?;
        revision
            .resolve_target(&references)
            .map_err(|error| self.with_hint(error).into())
    }

    /// Adds a suggestion to a "not found" error. That lists all references of the server. If it
    /// fails, the error is returned unchanged.
    #[must_use]
    pub fn with_hint(&self, error: RevisionError) -> RevisionError {
        match error {
            RevisionError::NotFound { text, hint } => {
                let hint = match (self.hint(&text), hint) {
                    (Ok(Some(better)), _) => better,
                    (_, hint) => hint,
                };
                RevisionError::NotFound { text, hint }
            }
            error @ RevisionError::Invalid { .. } => error,
        }
    }

    fn hint(&self, wanted: &str) -> Result<Option<RevisionHint>, GitError> {
        let mut nearest = SimilarName::new(wanted);
        let mut count = 0_u64;
        self.visit(&["HEAD".to_owned(), "refs/".to_owned()], &mut |each| {
            nearest.consider(each.name);
            count += 1;
            Ok(())
        })?;
        if count == 0 {
            return Ok(Some(RevisionHint::EmptyRepository));
        }
        Ok(nearest.into_best().map(RevisionHint::DidYouMean))
    }

    fn list_where(
        &self,
        prefixes: &[String],
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<References, GitError> {
        let mut references = References::default();
        self.visit(prefixes, &mut |each| {
            if wanted(each.name) {
                references.add(each, self.limits.references)?;
            }
            Ok(())
        })?;
        Ok(references)
    }

    fn visit(
        &self,
        prefixes: &[String],
        visit: &mut dyn FnMut(&AdvertisedReference<'_>) -> Result<(), ProtocolError>,
    ) -> Result<(), GitError> {
        let mut connection = self
            .client
            .connect(self.address, self.credentials, self.deadline)?;
        UploadPackSession::open(
            &mut *connection,
            prefixes,
            self.deadline,
            self.limits,
            visit,
        )?;
        Ok(())
    }
}

impl References {
    pub(super) fn add(
        &mut self,
        each: &AdvertisedReference<'_>,
        most: usize,
    ) -> Result<(), ProtocolError> {
        if self.targets.len() >= most {
            return Err(LimitExceeded::References(most).into());
        }
        if each.name == "HEAD" {
            self.head = each.symbolic.map(str::to_owned);
        }
        let target = ReferenceTarget {
            id: each.id,
            peeled: each.peeled,
        };
        self.targets.insert(each.name.to_owned(), target);
        Ok(())
    }
}
