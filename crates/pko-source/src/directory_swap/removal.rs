//! Removes a tree whose folders may lack permissions.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

const OWNER_RWX: u32 = 0o700;

/// Removes a file, link or folder if it exists. Links are not followed.
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
        // The owner can restore permissions that the folder lacks.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(path)?;
            fs::remove_dir_all(path)
        }
        outcome => outcome,
    }
}

/// Grants the owner access to every folder of the tree. Iterative, because the tree may be
/// arbitrarily deep.
pub(super) fn make_writable(path: &Path) -> io::Result<()> {
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let mode = folder.symlink_metadata()?.permissions().mode() & 0o7777;
        if mode & OWNER_RWX != OWNER_RWX {
            fs::set_permissions(&folder, Permissions::from_mode(mode | OWNER_RWX))?;
        }
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            // `file_type` does not follow links.
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(())
}
