//! Files in the format of Pulumi's blob library: written atomically, with attribute files.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use md5::{Digest as _, Md5};

/// Writes a file atomically: a crash leaves the old or the new content.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    replace(path, content, true)
}

/// With `durable` it also survives a loss of power, which may be slow.
fn replace(path: &Path, content: &[u8], durable: bool) -> io::Result<()> {
    let directory = directory_of(path);
    create_directories(directory, durable)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".")
        .suffix(".tmp")
        .tempfile_in(directory)?;
    temporary.write_all(content)?;
    if durable {
        temporary.as_file().sync_data()?;
    }
    temporary.persist(path).map_err(|error| error.error)?;
    if durable {
        sync_directory(directory)?;
    }
    Ok(())
}

/// Creates a directory and its parents. With `durable` their names also survive a loss of power.
fn create_directories(directory: &Path, durable: bool) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let parent = directory_of(directory);
    if parent != directory {
        create_directories(parent, durable)?;
    }
    match fs::create_dir(directory) {
        // another process may have been faster
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !directory.is_dir() => {
            return Err(error);
        }
        _ => {}
    }
    if durable {
        sync_directory(parent)
    } else {
        Ok(())
    }
}

/// Makes the names in a directory survive a loss of power.
fn sync_directory(directory: &Path) -> io::Result<()> {
    match fs::File::open(directory)?.sync_all() {
        // some network file systems cannot sync directories
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        None => path,
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    }
}

/// Writes a new file that only this user can read, durably. It fails if the file exists.
pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.sync_all()?;
    sync_directory(directory_of(path))
}

/// Writes a file of the backend and its attributes.
pub fn write(path: &Path, content: &[u8], durable: bool) -> io::Result<()> {
    let attributes = format!(
        "{{\"user.cache_control\":\"\",\"user.content_disposition\":\"\",\
         \"user.content_encoding\":\"\",\"user.content_language\":\"\",\
         \"user.content_type\":\"text/plain; charset=utf-8\",\"user.metadata\":null,\
         \"md5\":\"{}\"}}\n",
        STANDARD.encode(Md5::digest(content))
    );
    replace(path, content, durable)?;
    replace(&attributes_of(path), attributes.as_bytes(), false)
}

/// Writes a file of the backend without attributes, which readers do not need. Their hash is the
/// main cost of a large file.
pub fn write_bare(path: &Path, content: &[u8], durable: bool) -> io::Result<()> {
    // first, so that they never belong to other content
    remove_one(&attributes_of(path))?;
    replace(path, content, durable)
}

/// Removes a file of the backend and its attributes, if it exists.
pub fn remove(path: &Path) -> io::Result<()> {
    remove_one(path)?;
    remove_one(&attributes_of(path))
}

fn remove_one(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads a file; none if there is none.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The files of a directory with this extension, sorted; none if there is no directory.
pub fn list(directory: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.to_string_lossy().ends_with(ending) && path.is_file());
    paths.sort();
    Ok(paths)
}

fn attributes_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".attrs");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_attributes_match_cli() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/meta.yaml");
        write(&path, b"version: 1\n", true).unwrap();
        let attributes = fs::read_to_string(attributes_of(&path)).unwrap();
        assert!(
            attributes.ends_with("\"md5\":\"EaRWdV65+nlqCnYlI4a4Wg==\"}\n"),
            "{attributes}"
        );
        assert_eq!(
            list(path.parent().unwrap(), ".yaml").unwrap(),
            std::slice::from_ref(&path)
        );
        write_bare(&path, b"version: 2\n", false).unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"version: 2\n");
        assert!(
            !attributes_of(&path).exists(),
            "they were those of another content"
        );
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn file_directories_are_created() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b/c.json");
        write_whole(&path, b"1").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), b"1");
        let in_file = write_whole(&path.join("d"), b"2").unwrap_err();
        assert_ne!(in_file.kind(), io::ErrorKind::NotFound, "{in_file}");
        assert_eq!(directory_of(Path::new("a.json")), Path::new("."));
        assert_eq!(directory_of(Path::new("/")), Path::new("/"));
    }

    #[test]
    fn private_file_is_for_its_user_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state.json");
        write_private(&path, b"1").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = write_private(&path, b"2").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read(&path).unwrap().unwrap(), b"1");
    }
}
