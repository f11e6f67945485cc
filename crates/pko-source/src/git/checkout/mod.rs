//! Writes the files of a commit into an empty folder.
//!
//! Names, sizes and symbolic links are checked before anything is written. Links are created last,
//! so nothing is ever written through one. Files get the bytes that git stores, as with upstream:
//! no line ending conversion and no filters, so Git LFS files stay pointers.

mod index_file;
mod links;
mod plan;

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use gix_hash::ObjectId;
use gix_object::Kind as ObjectKind;

use super::{GitError, GitLimits, error::LimitExceeded, pack::PackObjects};
use crate::Deadline;
use index_file::Stat;
pub(super) use links::leads_out;
pub(super) use plan::{EntryKind, Plan, PlannedEntry};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TreeProblem {
    #[error("the name is not allowed")]
    Name,
    #[error("the name occurs twice")]
    Duplicate,
    #[error("the symbolic link leads out of the repository")]
    OutwardLink,
    #[error("the symbolic link is empty or too long")]
    LinkLength,
    #[error("the path is too long")]
    PathLength,
}

/// What may still be written. Submodules share the budget of their parent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub(super) entries: u64,
    pub(super) bytes: u64,
    pub(super) limits: GitLimits,
}

impl Budget {
    pub(super) fn new(limits: GitLimits) -> Self {
        Self {
            entries: limits.entries,
            bytes: limits.checkout_bytes,
            limits,
        }
    }

    fn take_entry(&mut self) -> Result<(), LimitExceeded> {
        let exceeded = LimitExceeded::Entries(self.limits.entries);
        self.entries = self.entries.checked_sub(1).ok_or(exceeded)?;
        Ok(())
    }

    fn take_bytes(&mut self, count: usize) -> Result<(), LimitExceeded> {
        let exceeded = LimitExceeded::CheckoutBytes(self.limits.checkout_bytes);
        self.bytes = self.bytes.checked_sub(count as u64).ok_or(exceeded)?;
        Ok(())
    }
}

/// Writes a tree and its index into a folder that contains nothing but `.git`.
pub(super) struct Checkout<'a> {
    pub(super) objects: &'a mut PackObjects,
    pub(super) folder: &'a Path,
    pub(super) address: &'a str,
    pub(super) deadline: Deadline,
    pub(super) budget: &'a mut Budget,
}

impl Checkout<'_> {
    pub(super) fn write(&mut self, tree: ObjectId) -> Result<Plan, GitError> {
        let plan = Plan::of(self, tree)?;
        let mut stats = vec![Stat::default(); plan.entries.len()];
        for folder in &plan.folders {
            self.make_folder(folder)?;
        }
        for (entry, stat) in plan.entries.iter().zip(&mut stats) {
            self.check_deadline()?;
            *stat = match entry.kind {
                EntryKind::File | EntryKind::Executable => self.write_file(entry)?,
                EntryKind::Submodule => self.make_submodule(entry)?,
                EntryKind::Link => continue,
            };
        }
        for (link, target) in &plan.links {
            if let Some((entry, stat)) = plan.entries.get(*link).zip(stats.get_mut(*link)) {
                *stat = self.make_link(entry, target)?;
            }
        }
        let index = self.folder.join(".git/index");
        index_file::write(&index, &plan.entries, &stats, self.objects.hash())
            .map_err(|source| write_error(&index, source))?;
        Ok(plan)
    }

    fn make_folder(&self, path: &[u8]) -> Result<(), GitError> {
        let path = self.path(path);
        DirBuilder::new()
            .mode(0o777)
            .create(&path)
            .map_err(|source| write_error(&path, source))
    }

    fn make_submodule(&self, entry: &PlannedEntry) -> Result<Stat, GitError> {
        self.make_folder(&entry.path)?;
        stat(&self.path(&entry.path))
    }

    fn write_file(&mut self, entry: &PlannedEntry) -> Result<Stat, GitError> {
        let path = self.path(&entry.path);
        let data = self.objects.require(&entry.id, ObjectKind::Blob)?;
        self.budget
            .take_bytes(data.len())
            .map_err(|limit| limit_error(self.address, limit))?;
        let mode = match entry.kind {
            EntryKind::Executable => 0o777,
            _ => 0o666,
        };
        create(&path, mode, data).map_err(|source| write_error(&path, source))
    }

    fn make_link(&self, entry: &PlannedEntry, target: &[u8]) -> Result<Stat, GitError> {
        let path = self.path(&entry.path);
        symlink(std::ffi::OsStr::from_bytes(target), &path)
            .map_err(|source| write_error(&path, source))?;
        stat(&path)
    }

    fn path(&self, path: &[u8]) -> PathBuf {
        self.folder.join(std::ffi::OsStr::from_bytes(path))
    }

    fn check_deadline(&self) -> Result<(), GitError> {
        self.deadline
            .remaining()
            .map(|_| ())
            .map_err(|_| GitError::Deadline {
                address: self.address.to_owned(),
            })
    }

    fn problem(&self, path: &[u8], problem: TreeProblem) -> GitError {
        GitError::Tree {
            address: self.address.to_owned(),
            path: sanitize_path(path),
            problem,
        }
    }
}

fn stat(path: &Path) -> Result<Stat, GitError> {
    fs::symlink_metadata(path)
        .map(|found| Stat::of(&found))
        .map_err(|source| write_error(path, source))
}

fn create(path: &Path, mode: u32, data: &[u8]) -> io::Result<Stat> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.write_all(data)?;
    Ok(Stat::of(&file.metadata()?))
}

impl Stat {
    fn of(found: &fs::Metadata) -> Self {
        // The index has 32 bits for each field. Git truncates as well.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "as git does it"
        )]
        Self {
            changed: (found.ctime() as u32, found.ctime_nsec() as u32),
            modified: (found.mtime() as u32, found.mtime_nsec() as u32),
            device: found.dev() as u32,
            inode: found.ino() as u32,
            user: found.uid(),
            group: found.gid(),
            size: found.size() as u32,
        }
    }
}

pub(super) fn write_error(path: &Path, source: io::Error) -> GitError {
    GitError::Write {
        path: path.to_owned(),
        source,
    }
}

fn limit_error(address: &str, limit: LimitExceeded) -> GitError {
    GitError::Limit {
        address: address.to_owned(),
        limit,
    }
}

fn sanitize_path(path: &[u8]) -> String {
    String::from_utf8_lossy(path)
        .chars()
        .take(200)
        .flat_map(char::escape_debug)
        .collect()
}
