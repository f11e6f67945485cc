//! Lists all entries of a tree and checks them before anything is written.

use std::collections::{HashMap, HashSet};

use gix_hash::ObjectId;
use gix_object::{Kind as ObjectKind, TreeRefIter, tree};

use super::{super::GitError, Checkout, TreeProblem, limit_error, links};

/// `PATH_MAX` is 4096.
const LONGEST_PATH: usize = 4000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum EntryKind {
    File,
    Executable,
    Link,
    Submodule,
}

impl EntryKind {
    pub(super) fn mode(self) -> u32 {
        match self {
            Self::File => 0o100_644,
            Self::Executable => 0o100_755,
            Self::Link => 0o120_000,
            Self::Submodule => 0o160_000,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct PlannedEntry {
    pub(in super::super) path: Vec<u8>,
    pub(in super::super) kind: EntryKind,
    pub(in super::super) id: ObjectId,
}

#[derive(Debug, Default)]
pub(in super::super) struct Plan {
    /// Sorted by path, as the index requires.
    pub(in super::super) entries: Vec<PlannedEntry>,
    /// Parents before children.
    pub(super) folders: Vec<Vec<u8>>,
    /// Indexes into `entries`, with the targets of the links.
    pub(super) links: Vec<(usize, Vec<u8>)>,
}

impl Plan {
    pub(super) fn of(checkout: &mut Checkout<'_>, root: ObjectId) -> Result<Self, GitError> {
        let mut plan = Self::default();
        let mut left = vec![(Vec::new(), root)];
        while let Some((folder, id)) = left.pop() {
            checkout.check_deadline()?;
            plan.add_tree(checkout, &folder, &id, &mut left)?;
        }
        plan.entries
            .sort_unstable_by(|one, other| one.path.cmp(&other.path));
        plan.add_links(checkout)?;
        Ok(plan)
    }

    fn add_tree(
        &mut self,
        checkout: &mut Checkout<'_>,
        folder: &[u8],
        id: &ObjectId,
        left: &mut Vec<(Vec<u8>, ObjectId)>,
    ) -> Result<(), GitError> {
        let hash = checkout.objects.hash();
        // Copied, because reading the next object reuses the buffer.
        let data = checkout.objects.require(id, ObjectKind::Tree)?.to_vec();
        let mut names = HashSet::new();
        for entry in TreeRefIter::from_bytes(&data, hash) {
            let entry = entry.map_err(|error| GitError::Pack {
                address: checkout.address.to_owned(),
                source: Box::new(error),
            })?;
            checkout
                .budget
                .take_entry()
                .map_err(|limit| limit_error(checkout.address, limit))?;
            let path = join_path(folder, entry.filename);
            check_name(&entry, &path).map_err(|problem| checkout.problem(&path, problem))?;
            if !names.insert(entry.filename) {
                return Err(checkout.problem(&path, TreeProblem::Duplicate));
            }
            let id = entry.oid.to_owned();
            if let Some(kind) = kind(entry.mode) {
                self.entries.push(PlannedEntry { path, kind, id });
            } else {
                self.folders.push(path.clone());
                left.push((path, id));
            }
        }
        Ok(())
    }

    /// Reads link targets and rejects links that lead out of the repository.
    fn add_links(&mut self, checkout: &mut Checkout<'_>) -> Result<(), GitError> {
        let links = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.kind == EntryKind::Link);
        for (position, entry) in links {
            checkout.check_deadline()?;
            let target = checkout.objects.require(&entry.id, ObjectKind::Blob)?;
            if target.is_empty() || target.len() > LONGEST_PATH || target.contains(&0) {
                return Err(checkout.problem(&entry.path, TreeProblem::LinkLength));
            }
            self.links.push((position, target.to_vec()));
        }
        let by_path: HashMap<&[u8], &[u8]> = self
            .links
            .iter()
            .filter_map(|(position, target)| {
                Some((
                    self.entries.get(*position)?.path.as_slice(),
                    target.as_slice(),
                ))
            })
            .collect();
        for path in by_path.keys() {
            checkout.check_deadline()?;
            if links::leads_out(path, &by_path) {
                return Err(checkout.problem(path, TreeProblem::OutwardLink));
            }
        }
        Ok(())
    }
}

fn kind(mode: tree::EntryMode) -> Option<EntryKind> {
    match mode.kind() {
        tree::EntryKind::Tree => None,
        tree::EntryKind::Blob => Some(EntryKind::File),
        tree::EntryKind::BlobExecutable => Some(EntryKind::Executable),
        tree::EntryKind::Link => Some(EntryKind::Link),
        tree::EntryKind::Commit => Some(EntryKind::Submodule),
    }
}

fn join_path(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() {
        return name.to_vec();
    }
    [folder, name].join(&b'/')
}

/// Accepts what git itself would write: no empty name, no `..`, nothing that a file system could
/// take for `.git`. Names that are invalid only on Windows are fine.
fn check_name(entry: &tree::EntryRef<'_>, path: &[u8]) -> Result<(), TreeProblem> {
    use gix_validate::path::component::{Mode, Options};
    let options = Options {
        protect_windows: false,
        protect_hfs: true,
        protect_ntfs: true,
    };
    if path.len() > LONGEST_PATH {
        return Err(TreeProblem::PathLength);
    }
    if entry.filename.contains(&0) {
        return Err(TreeProblem::Name);
    }
    let mode = (entry.mode.kind() == tree::EntryKind::Link).then_some(Mode::Symlink);
    match gix_validate::path::component(entry.filename, mode, options) {
        Ok(_) => Ok(()),
        Err(_) => Err(TreeProblem::Name),
    }
}
