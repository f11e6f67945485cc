//! Replaces a folder atomically: the new content is built in a staging folder and then swapped in.
//!
//! The staging folder is next to the target:
//!
//! ```text
//!   .incoming-k3x/.lock   locked while the run lives, so the next run can detect leftovers
//!   .incoming-k3x/new     the new content, then renamed to the target
//!   .incoming-k3x/old     the previous target, until it is removed
//! ```
//!
//! A target that cannot be renamed (a mounted volume, or a read-only parent) contains the staging
//! folder instead, and its entries are swapped one by one. That is not atomic.

mod removal;
mod staging;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, RenameFlags, StatxAttributes, StatxFlags};

use staging::StagingDirectory;

#[derive(Debug, thiserror::Error)]
pub enum DirectorySwapError {
    #[error(
        "{} exists and is not a folder; remove it or choose another target",
        .0.display()
    )]
    NotAFolder(PathBuf),
    #[error("failed to create a temporary folder for {}", target.display())]
    Stage { target: PathBuf, source: io::Error },
    #[error("failed to move the new files to {}", target.display())]
    Swap { target: PathBuf, source: io::Error },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SwapStrategy {
    Beside,
    Inside,
}

/// Calls `make` with a path at which it creates the new folder, then swaps that folder with the
/// target. If `make` fails, the target is unchanged. `make` may also use the folder around that
/// path for temporary files.
pub(crate) fn replace_directory<T, E: From<DirectorySwapError>>(
    target: &Path,
    make: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let (strategy, staging) = prepare(target)?;
    let outcome = make(&staging.new_folder())?;
    strategy
        .swap(&staging, target)
        .map_err(|source| DirectorySwapError::Swap {
            target: target.to_owned(),
            source,
        })?;
    Ok(outcome)
}

fn prepare(target: &Path) -> Result<(SwapStrategy, StagingDirectory), DirectorySwapError> {
    let exists = check_replaceable(target)?;
    let stage = |source| DirectorySwapError::Stage {
        target: target.to_owned(),
        source,
    };
    if exists && is_unmovable(target) {
        return stage_inside(target).map_err(stage);
    }
    match stage_beside(target) {
        // The parent may belong to another user while the target is ours.
        Err(error) if exists && is_permission_error(&error) => stage_inside(target).map_err(stage),
        outcome => outcome.map_err(stage),
    }
}

fn stage_beside(target: &Path) -> io::Result<(SwapStrategy, StagingDirectory)> {
    let parent = parent(target);
    fs::create_dir_all(parent)?;
    Ok((SwapStrategy::Beside, StagingDirectory::new(parent)?))
}

fn stage_inside(target: &Path) -> io::Result<(SwapStrategy, StagingDirectory)> {
    Ok((SwapStrategy::Inside, StagingDirectory::new(target)?))
}

fn parent(target: &Path) -> &Path {
    let parent = target.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Reports whether the target exists. A file at that path is likely a mistake, so it is an error.
fn check_replaceable(target: &Path) -> Result<bool, DirectorySwapError> {
    match target.symlink_metadata() {
        Ok(data) if data.is_dir() || data.is_symlink() => Ok(true),
        Ok(_) => Err(DirectorySwapError::NotAFolder(target.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(DirectorySwapError::Stage {
            target: target.to_owned(),
            source,
        }),
    }
}

/// A folder without a name of its own (`.`, `/`) or with a volume mounted on it.
fn is_unmovable(target: &Path) -> bool {
    if target.file_name().is_none() {
        return true;
    }
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    match rustix::fs::statx(CWD, target, flags, StatxFlags::BASIC_STATS) {
        Ok(found)
            if found
                .stx_attributes_mask
                .contains(StatxAttributes::MOUNT_ROOT) =>
        {
            found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
        }
        // Older kernels do not report mount roots. A different device is the next best sign.
        _ => is_on_other_device(target),
    }
}

fn is_on_other_device(target: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (target.symlink_metadata(), parent(target).metadata()) {
        (Ok(target), Ok(parent)) => target.dev() != parent.dev(),
        _ => false,
    }
}

fn is_permission_error(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

impl SwapStrategy {
    fn swap(self, staging: &StagingDirectory, target: &Path) -> io::Result<()> {
        match self {
            Self::Beside => swap_beside(staging, target),
            Self::Inside => swap_inside(staging, target),
        }
    }
}

fn swap_beside(staging: &StagingDirectory, target: &Path) -> io::Result<()> {
    let new = staging.new_folder();
    if target.symlink_metadata().is_err() {
        return fs::rename(new, target);
    }
    // Atomic where the file system supports it. The previous target is then at the path of the new
    // one.
    if rustix::fs::renameat_with(CWD, &new, CWD, target, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    move_away(target, &staging.old_folder())?;
    rename(&new, target)
}

/// Not atomic: a concurrent reader may see a mix. If a run ends in between, the next run replaces
/// everything.
fn swap_inside(staging: &StagingDirectory, target: &Path) -> io::Result<()> {
    let old = staging.old_folder();
    fs::create_dir(&old)?;
    for entry in fs::read_dir(target)? {
        let name = entry?.file_name();
        if !staging::is_staging(&target.join(&name)) {
            move_away(&target.join(&name), &old.join(&name))?;
        }
    }
    for entry in fs::read_dir(staging.new_folder())? {
        let name = entry?.file_name();
        rename(&staging.new_folder().join(&name), &target.join(&name))?;
    }
    Ok(())
}

/// A folder from an image layer (overlayfs) cannot be moved, only removed.
fn move_away(from: &Path, to: &Path) -> io::Result<()> {
    match rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => removal::remove(from),
        outcome => outcome,
    }
}

/// Moving a folder to another parent requires write permission on the folder itself.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            removal::make_writable(from)?;
            fs::rename(from, to)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests;
