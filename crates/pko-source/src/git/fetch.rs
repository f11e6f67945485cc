//! Fetches one commit into a folder.

use std::path::Path;

use gix_hash::ObjectId;

use super::{
    CommitId, GitError, References, Remote, Revision,
    checkout::{Budget, Checkout},
    git_directory::{CloneSpec, GitDirectory},
    pack::{PackDestination, PackObjects},
    protocol::{FetchRequest, UploadPackSession},
    revision::RevisionError,
};
use crate::directory_swap;

#[derive(Debug, Clone, Copy)]
pub struct FetchOptions<'a> {
    pub revision: &'a Revision,
    /// That commit alone, without branches, tags and history.
    pub shallow: bool,
    pub submodules: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchedCommit {
    pub commit: CommitId,
    pub already_present: bool,
}

impl Remote<'_> {
    /// Fetches a commit into the target folder, which is replaced unless it is at that commit
    /// already. A full clone has all branches and tags. `HEAD` is detached.
    pub fn fetch(
        &self,
        options: &FetchOptions<'_>,
        target: &Path,
    ) -> Result<FetchedCommit, GitError> {
        // Resolving a full hash needs no request.
        let wanted = self.resolve_target(options.revision)?;
        let contents = self.contents(wanted.commit(), options);
        if GitDirectory::of_worktree(target).is_complete(&contents) {
            return Ok(FetchedCommit {
                commit: contents.commit,
                already_present: true,
            });
        }
        let mut budget = Budget::new(self.limits);
        directory_swap::replace_directory(target, |folder| {
            // The id that the server advertises: some servers serve no other.
            self.fetch_into(folder, CommitId(wanted.id), options, &mut budget, 0)
        })
    }

    fn contents(&self, commit: CommitId, options: &FetchOptions<'_>) -> CloneSpec<'_> {
        CloneSpec {
            address: self.address,
            commit,
            shallow: options.shallow,
            submodules: options.submodules,
        }
    }

    /// Fetches into an empty folder.
    pub(super) fn fetch_into(
        &self,
        folder: &Path,
        wanted: CommitId,
        options: &FetchOptions<'_>,
        budget: &mut Budget,
        depth: u32,
    ) -> Result<FetchedCommit, GitError> {
        let repository = GitDirectory::of_worktree(folder);
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
        Ok(FetchedCommit {
            commit,
            already_present: false,
        })
    }

    /// Requests the objects. A server that refuses a commit by hash is asked for all its references
    /// instead, whose history may contain the commit.
    fn receive(
        &self,
        repository: &GitDirectory,
        wanted: CommitId,
        shallow: bool,
    ) -> Result<ReceivedPack, GitError> {
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
        repository: &GitDirectory,
        wanted: Option<CommitId>,
        shallow: bool,
    ) -> Result<ReceivedPack, GitError> {
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
        let session = UploadPackSession::open(
            &mut *connection,
            &prefixes,
            self.deadline,
            self.limits,
            &mut |each| references.add(each, self.limits.references),
        )?;
        let ids = wanted_ids(&references, wanted);
        if ids.is_empty() {
            let text = "HEAD".to_owned();
            let hint = super::RevisionHint::EmptyRepository;
            return Err(RevisionError::NotFound { text, hint }.into());
        }
        let address = self.address.to_string();
        let packs = repository.packs();
        let place = PackDestination {
            folder: &packs,
            address: &address,
            hash: session.hash()?,
            limits: self.limits,
            deadline: self.deadline,
        };
        let request = FetchRequest { ids: &ids, shallow };
        let (shallow, objects) =
            session.fetch(&request, |pack| PackObjects::receive(pack, &place))?;
        Ok(ReceivedPack {
            objects: objects.ok_or(GitError::Protocol {
                address,
                problem: "the pack is empty",
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

struct ReceivedPack {
    objects: PackObjects,
    references: References,
    shallow: Vec<ObjectId>,
}

fn wanted_ids(references: &References, wanted: Option<CommitId>) -> Vec<ObjectId> {
    let tips = references.targets.values().map(|target| target.id);
    let mut ids: Vec<ObjectId> = tips.chain(wanted.map(|commit| commit.0)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
