//! A folder that takes the old one's place, when it is whole and not before.
//!
//! Beside the target there is, for a while, a folder `.incoming-*`:
//!
//! ```text
//!   .incoming-k3x/.lock   held as long as the run lives, so that the next one can tell what is left of a dead one
//!   .incoming-k3x/new     what is being made, then the target
//!   .incoming-k3x/old     what was the target, until it is removed
//! ```
//!
//! Where the target can't be renamed (a volume is mounted right there, or the folder above may not be
//! written), the same folder is inside of the target, and what is in the target changes places instead.

mod remove;
mod staging;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, RenameFlags, StatxAttributes, StatxFlags};

use staging::Staging;

/// A folder that could not be put where it belongs.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// Something else has its name.
    #[error(
        "{} is not a folder: it is not replaced; remove it, or choose another folder",
        .0.display()
    )]
    NotAFolder(PathBuf),
    /// There is no room for what is being made.
    #[error("failed to make a temporary folder for {}", target.display())]
    Stage {
        /// Whose place was to be taken
        target: PathBuf,
        /// Why not
        source: io::Error,
    },
    /// What was made could not be moved.
    #[error("failed to put the new files into {}", target.display())]
    Swap {
        /// Whose place was to be taken
        target: PathBuf,
        /// Why not
        source: io::Error,
    },
}

/// How a target is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    /// The target itself is renamed.
    Beside,
    /// The target stays, what is in it is renamed.
    Inside,
}

/// Has `make` make a folder at the path that it is given, where there is nothing yet, then puts that
/// folder in the target's place. If `make` fails the target stays as it was. The folder around that
/// path is `make`'s too, for files that it needs for a while.
pub(crate) fn into_place<T, E: From<PlaceError>>(
    target: &Path,
    make: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let (strategy, staging) = prepare(target)?;
    let outcome = make(&staging.new_folder())?;
    strategy
        .swap(&staging, target)
        .map_err(|source| PlaceError::Swap {
            target: target.to_owned(),
            source,
        })?;
    Ok(outcome)
}

fn prepare(target: &Path) -> Result<(Strategy, Staging), PlaceError> {
    let exists = is_replaceable(target)?;
    let stage = |source| PlaceError::Stage {
        target: target.to_owned(),
        source,
    };
    if exists && is_fixed(target) {
        return inside(target).map_err(stage);
    }
    match beside(target) {
        // The folder above belongs to somebody else, but the target may be ours.
        Err(error) if exists && is_not_ours(&error) => inside(target).map_err(stage),
        outcome => outcome.map_err(stage),
    }
}

fn beside(target: &Path) -> io::Result<(Strategy, Staging)> {
    let parent = parent(target);
    fs::create_dir_all(parent)?;
    Ok((Strategy::Beside, Staging::new(parent)?))
}

fn inside(target: &Path) -> io::Result<(Strategy, Staging)> {
    Ok((Strategy::Inside, Staging::new(target)?))
}

fn parent(target: &Path) -> &Path {
    let parent = target.parent();
    let parent = parent.filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Whether there is something; a file there is most likely somebody's mistake.
fn is_replaceable(target: &Path) -> Result<bool, PlaceError> {
    match target.symlink_metadata() {
        Ok(data) if data.is_dir() || data.is_symlink() => Ok(true),
        Ok(_) => Err(PlaceError::NotAFolder(target.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(PlaceError::Stage {
            target: target.to_owned(),
            source,
        }),
    }
}

/// A folder that no rename can move: it has no name of its own, or a volume is mounted there.
fn is_fixed(target: &Path) -> bool {
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
        // An older kernel does not say; another device does.
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

fn is_not_ours(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
    )
}

impl Strategy {
    fn swap(self, staging: &Staging, target: &Path) -> io::Result<()> {
        match self {
            Self::Beside => swap_beside(staging, target),
            Self::Inside => swap_inside(staging, target),
        }
    }
}

fn swap_beside(staging: &Staging, target: &Path) -> io::Result<()> {
    let new = staging.new_folder();
    if target.symlink_metadata().is_err() {
        return fs::rename(new, target);
    }
    // In one step where the filesystem can do that; what was the target is then where the new one was.
    if rustix::fs::renameat_with(CWD, &new, CWD, target, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    move_away(target, &staging.old_folder())?;
    rename(&new, target)
}

/// Not in one step: whoever looks meanwhile sees parts. A run that ends in between is made good by the
/// next one, which replaces everything.
fn swap_inside(staging: &Staging, target: &Path) -> io::Result<()> {
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

/// A folder from a layer of an image can't be moved, only removed.
fn move_away(from: &Path, to: &Path) -> io::Result<()> {
    match rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => remove::remove(from),
        outcome => outcome,
    }
}

/// A folder that goes to another one must be writable itself.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            remove::open_up(from)?;
            fs::rename(from, to)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests;
