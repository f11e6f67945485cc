//! The staging folder, and the cleanup of staging folders from runs that died.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::removal::remove;

const PREFIX: &str = ".incoming-";
const LOCK: &str = ".lock";
/// A concurrent run may remove the folder as stale between its creation and its locking.
const MAX_ATTEMPTS: usize = 8;

/// Removed with its contents on drop.
#[derive(Debug)]
pub(super) struct StagingDirectory {
    folder: PathBuf,
    /// The kernel releases the lock when the process dies.
    _lock: File,
}

impl StagingDirectory {
    /// Creates a staging folder and removes stale ones.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        let made = Self::create_locked(parent)?;
        remove_stale(parent, &made.folder);
        Ok(made)
    }

    fn create_locked(parent: &Path) -> io::Result<Self> {
        for _ in 0..MAX_ATTEMPTS {
            let folder = tempfile::Builder::new()
                .prefix(PREFIX)
                .tempdir_in(parent)?
                .keep();
            match lock(&folder) {
                Ok(Some(lock)) => {
                    return Ok(Self {
                        folder,
                        _lock: lock,
                    });
                }
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let _ = remove(&folder);
                    return Err(error);
                }
            }
        }
        Err(io::Error::other("another process keeps removing it"))
    }

    pub(super) fn new_folder(&self) -> PathBuf {
        self.folder.join("new")
    }

    pub(super) fn old_folder(&self) -> PathBuf {
        self.folder.join("old")
    }
}

impl Drop for StagingDirectory {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.folder) {
            let folder = self.folder.display();
            tracing::warn!(%folder, %error, "Failed to remove a temporary folder; the next run tries again");
        }
    }
}

/// Locks the folder. Returns `None` if a concurrent run removed it.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = File::create(folder.join(LOCK))?;
    match file.try_lock() {
        Ok(()) if file.metadata()?.nlink() == 0 => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(None),
        // The file system has no locks, so no other run can lock this folder either.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(file)),
    }
}

pub(super) fn is_staging(path: &Path) -> bool {
    has_staging_name(path) && path.join(LOCK).symlink_metadata().is_ok()
}

fn has_staging_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with(PREFIX)
}

/// Best effort: the next run tries again.
fn remove_stale(parent: &Path, own: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for folder in entries.map(|entry| entry.path()) {
        if has_staging_name(&folder) && folder != own && !folder.is_symlink() {
            remove_if_stale(&folder);
        }
    }
}

fn remove_if_stale(folder: &Path) {
    match File::options()
        .read(true)
        .write(true)
        .open(folder.join(LOCK))
    {
        Ok(lock) => {
            if lock.try_lock().is_ok() {
                let _ = remove(folder);
            }
        }
        // Either another run is creating it, or it is not a staging folder. `remove_dir` removes
        // only empty folders, and the other run retries.
        Err(_) => {
            let _ = fs::remove_dir(folder);
        }
    }
}
