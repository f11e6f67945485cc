//! The temporary folder in which something is made, and what is left of those of dead runs.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use super::remove::remove;

const PREFIX: &str = ".incoming-";
const LOCK: &str = ".lock";
/// Another run may take a folder for a dead one's in the moment in which it is made.
const TRIES: usize = 8;

/// A folder that is removed with everything in it.
#[derive(Debug)]
pub(super) struct Staging {
    folder: PathBuf,
    /// Held as long as this run lives, also if it is killed.
    _lock: File,
}

impl Staging {
    /// Makes one, after removing those of runs that are dead.
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        let made = Self::try_often(parent)?;
        remove_stale(parent, &made.folder);
        Ok(made)
    }

    fn try_often(parent: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
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
        Err(io::Error::other("it is removed by others again and again"))
    }

    /// Where the new folder is made.
    pub(super) fn new_folder(&self) -> PathBuf {
        self.folder.join("new")
    }

    /// Where the old one goes.
    pub(super) fn old_folder(&self) -> PathBuf {
        self.folder.join("old")
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.folder) {
            let folder = self.folder.display();
            tracing::warn!(%folder, %error, "A temporary folder could not be removed; the next run tries again");
        }
    }
}

/// Takes the lock of a folder of ours; nothing if somebody removed it meanwhile.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = File::create(folder.join(LOCK))?;
    match file.try_lock() {
        Ok(()) if file.metadata()?.nlink() == 0 => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(None),
        // A filesystem without locks: then nobody takes the folder for a dead run's either.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(file)),
    }
}

/// Whether it is a temporary folder, of whichever run.
pub(super) fn is_staging(path: &Path) -> bool {
    has_our_name(path) && path.join(LOCK).symlink_metadata().is_ok()
}

fn has_our_name(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().starts_with(PREFIX)
}

/// Best effort: what can't be removed now stays until the next time.
fn remove_stale(parent: &Path, own: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for folder in entries.map(|entry| entry.path()) {
        if has_our_name(&folder) && folder != own && !folder.is_symlink() {
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
        // Just being made, or nobody's: only an empty folder goes, and who is making it makes another.
        Err(_) => {
            let _ = fs::remove_dir(folder);
        }
    }
}
