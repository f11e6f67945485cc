//! Removes a tree, whatever modes its folders have.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

const OURS: u32 = 0o700;

/// Removes the file, link or folder, if there is one. Links are removed, never followed.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(data) if data.is_dir() => remove_folder(path),
        Ok(_) => fs::remove_file(path),
    }
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        // What a folder's mode forbids its owner can allow again.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        outcome => outcome,
    }
}

/// Lets the owner read and write every folder of the tree. A list instead of recursion, since whoever
/// made the tree chose how deep it is.
pub(super) fn open_up(path: &Path) -> io::Result<()> {
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let mode = folder.symlink_metadata()?.permissions().mode() & 0o7777;
        if mode & OURS != OURS {
            fs::set_permissions(&folder, Permissions::from_mode(mode | OURS))?;
        }
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            // The kind of the entry itself: a link is no folder.
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}
