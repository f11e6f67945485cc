//! The references of a server, so far as someone wants them. What nobody wants takes no memory.

use super::{
    Address, Client, CommitId, Credentials, GitError, Limits, References, Revision, RevisionError,
    advertisement::{Advertised, WordsError},
    error::LimitExceeded,
    nearest::Nearest,
    protocol::Session,
    references::Target,
    revision::Hint,
};
use crate::Deadline;

/// A repository on a server, with all that it takes to ask it something.
#[derive(Debug, Clone, Copy)]
pub struct Remote<'a> {
    /// Ways to servers
    pub client: &'a Client,
    /// Where it is
    pub address: &'a Address,
    /// Who we are to it
    pub credentials: &'a Credentials,
    /// When we give up
    pub deadline: Deadline,
    /// How much we take
    pub limits: Limits,
}

impl Remote<'_> {
    /// All references whose full names start with one of these, `refs/heads/` for one.
    pub fn list(&self, prefixes: &[String]) -> Result<References, GitError> {
        self.list_where(prefixes, &|_| true)
    }

    /// The references that these revisions may mean, for [`Revision::resolve`].
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

    /// The commit that a revision means now. A full hash is itself, whether the server has it or not.
    pub fn resolve(&self, revision: &Revision) -> Result<CommitId, GitError> {
        self.resolve_target(revision).map(Target::commit)
    }

    pub(super) fn resolve_target(&self, revision: &Revision) -> Result<Target, GitError> {
        if let Some(commit) = revision.commit() {
            return Ok(Target::of(commit));
        }
        let references = self.look_up([revision])?;
        revision
            .resolve_target(&references)
            .map_err(|error| self.with_hint(error).into())
    }

    /// The error with what may have been meant, which takes another look at all that the server has. If that
    /// fails, the error is as good as it was.
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

    fn hint(&self, wanted: &str) -> Result<Option<Hint>, GitError> {
        let mut nearest = Nearest::new(wanted);
        let mut count = 0_u64;
        self.visit(&["HEAD".to_owned(), "refs/".to_owned()], &mut |each| {
            nearest.look_at(each.name);
            count += 1;
            Ok(())
        })?;
        if count == 0 {
            return Ok(Some(Hint::EmptyRepository));
        }
        Ok(nearest.found().map(Hint::Nearest))
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
        visit: &mut dyn FnMut(&Advertised<'_>) -> Result<(), WordsError>,
    ) -> Result<(), GitError> {
        let mut connection = self
            .client
            .connect(self.address, self.credentials, self.deadline)?;
        Session::open(
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
    pub(super) fn add(&mut self, each: &Advertised<'_>, most: usize) -> Result<(), WordsError> {
        if self.targets.len() >= most {
            return Err(LimitExceeded::References(most).into());
        }
        if each.name == "HEAD" {
            self.head = each.symbolic.map(str::to_owned);
        }
        let target = Target {
            id: each.id,
            peeled: each.peeled,
        };
        self.targets.insert(each.name.to_owned(), target);
        Ok(())
    }
}
