//! Fetches one commit into a folder, which is whole or not there.

use std::path::Path;

use gix_hash::ObjectId;

use super::{
    CommitId, GitError, References, Remote, Revision,
    checkout::{Budget, Checkout},
    pack::{Objects, Place},
    protocol::{Session, Wants},
    repository::{Contents, Repository},
    revision::RevisionError,
};
use crate::place;

/// What is fetched, and how much of what came before it.
#[derive(Debug, Clone, Copy)]
pub struct FetchOptions<'a> {
    /// Which commit
    pub revision: &'a Revision,
    /// That commit alone, without branches, tags and history
    pub shallow: bool,
    /// The submodules as well
    pub submodules: bool,
}

/// What was fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fetched {
    /// The commit that the folder is at
    pub commit: CommitId,
    /// It was there before
    pub was_there: bool,
}

impl Remote<'_> {
    /// Fetches a commit into the target, which is replaced unless it is at that commit already. A full clone
    /// has all branches and tags. The commit is checked out, with no branch.
    pub fn fetch(&self, options: &FetchOptions<'_>, target: &Path) -> Result<Fetched, GitError> {
        // a full hash asks nobody; a name is asked for, and the folder may be at its commit already
        let wanted = self.resolve_target(options.revision)?;
        let contents = self.contents(wanted.commit(), options);
        if Repository::in_folder(target).is_whole(&contents) {
            return Ok(Fetched {
                commit: contents.commit,
                was_there: true,
            });
        }
        let mut budget = Budget::new(self.limits);
        place::into_place(target, |folder| {
            // the id that the server shows, because some give nothing else
            self.fetch_into(folder, CommitId(wanted.id), options, &mut budget, 0)
        })
    }

    fn contents(&self, commit: CommitId, options: &FetchOptions<'_>) -> Contents<'_> {
        Contents {
            address: self.address,
            commit,
            shallow: options.shallow,
            submodules: options.submodules,
        }
    }

    /// Fetches into a folder that has nothing in it.
    pub(super) fn fetch_into(
        &self,
        folder: &Path,
        wanted: CommitId,
        options: &FetchOptions<'_>,
        budget: &mut Budget,
        depth: u32,
    ) -> Result<Fetched, GitError> {
        let repository = Repository::in_folder(folder);
        repository.create()?;
        let mut received = self.receive(&repository, wanted, options.shallow)?;
        let (commit, tree) = received
            .objects
            .commit(wanted)?
            .ok_or_else(|| self.no_such(wanted))?;
        let contents = self.contents(commit, options);
        let hash = received.objects.hash();
        repository.describe(&contents, hash, &received.references, &received.shallow)?;
        let address = self.address.to_string();
        let mut checkout = Checkout {
            objects: &mut received.objects,
            folder,
            address: &address,
            deadline: self.deadline,
            budget,
        };
        let plan = checkout.write(tree)?;
        if options.submodules {
            self.fetch_submodules(folder, &plan, &mut received.objects, options, budget, depth)?;
        }
        repository.finish(&contents)?;
        Ok(Fetched {
            commit,
            was_there: false,
        })
    }

    /// Has the objects sent. A server that won't send a commit by its hash sends all it has instead, among
    /// which the commit may be.
    fn receive(
        &self,
        repository: &Repository,
        wanted: CommitId,
        shallow: bool,
    ) -> Result<Received, GitError> {
        match self.receive_wanted(repository, Some(wanted), shallow) {
            Err(GitError::Refused { .. }) => {
                self.receive_wanted(repository, None, false)
                    .map_err(|error| match error {
                        GitError::Revision(_) => self.no_such(wanted),
                        error => error,
                    })
            }
            outcome => outcome,
        }
    }

    fn receive_wanted(
        &self,
        repository: &Repository,
        wanted: Option<CommitId>,
        shallow: bool,
    ) -> Result<Received, GitError> {
        let prefixes: &[&str] = if shallow {
            &[]
        } else {
            &["HEAD", "refs/heads/", "refs/tags/"]
        };
        let prefixes: Vec<String> = prefixes.iter().map(|each| (*each).to_owned()).collect();
        let mut references = References::default();
        let mut connection = self
            .client
            .connect(self.address, self.credentials, self.deadline)?;
        let session = Session::open(
            &mut *connection,
            &prefixes,
            self.deadline,
            self.limits,
            &mut |each| references.add(each, self.limits.references),
        )?;
        let ids = wanted_ids(&references, wanted);
        if ids.is_empty() {
            let text = "HEAD".to_owned();
            let hint = super::Hint::EmptyRepository;
            return Err(RevisionError::NotFound { text, hint }.into());
        }
        let address = self.address.to_string();
        let packs = repository.packs();
        let place = Place {
            folder: &packs,
            address: &address,
            hash: session.hash()?,
            limits: self.limits,
            deadline: self.deadline,
        };
        let wants = Wants { ids: &ids, shallow };
        let (shallow, objects) = session.fetch(&wants, |pack| Objects::receive(pack, &place))?;
        Ok(Received {
            objects: objects.ok_or(GitError::Protocol {
                address,
                problem: "its pack is empty",
            })?,
            references,
            shallow,
        })
    }

    fn no_such(&self, commit: CommitId) -> GitError {
        GitError::NoSuchCommit {
            address: self.address.to_string(),
            commit,
        }
    }
}

/// What a server sent.
struct Received {
    objects: Objects,
    references: References,
    /// Where history ends
    shallow: Vec<ObjectId>,
}

/// Each object once.
fn wanted_ids(references: &References, wanted: Option<CommitId>) -> Vec<ObjectId> {
    let tips = references.targets.values().map(|target| target.id);
    let mut ids: Vec<ObjectId> = tips.chain(wanted.map(|commit| commit.0)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
