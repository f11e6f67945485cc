//! Files in the format of Pulumi's blob library: written atomically, with attribute files.

use std::{
    fs,
    io::{self, Write as _},
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
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut temporary = tempfile::Builder::new()
        .prefix(".")
        .suffix(".tmp")
        .tempfile_in(directory)?;
    temporary.write_all(content)?;
    if durable {
        temporary.as_file().sync_data()?;
    }
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
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

/// Writes a file of the backend without attributes, which readers do not need. Their hash is the main
/// cost of a large file.
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
}
