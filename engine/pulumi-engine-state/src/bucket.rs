//! The files of a backend: a folder, or a bucket of a cloud. The key of a file is its path with
//! slashes.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use super::file;

#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// The folder failed.
    #[error(transparent)]
    Folder(#[from] io::Error),
    /// The cloud's service failed.
    #[error("{}", error_chain(.0))]
    Service(#[source] object_store::Error),
    /// An invalid object name.
    #[error("{0:?} is no name of an object")]
    Name(String),
}

/// The whole chain of a service error. Its outer texts omit the response.
fn error_chain(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut inner = std::error::Error::source(error);
    while let Some(source) = inner {
        let more = source.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        inner = source.source();
    }
    text
}

/// Files by key. Writes are atomic.
pub trait Bucket: fmt::Debug + Send + Sync {
    /// Reads a file; none if there is none.
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, BucketError>;
    /// Writes a file.
    fn write(&self, key: &str, content: &[u8]) -> Result<(), BucketError>;
    /// Writes a file that is written again soon. It may omit what readers do not need.
    fn write_for_now(&self, key: &str, content: &[u8]) -> Result<(), BucketError> {
        self.write(key, content)
    }
    /// Removes a file, if it exists.
    fn remove(&self, key: &str) -> Result<(), BucketError>;
    /// The keys of the files directly in a folder with this extension, sorted.
    fn list(&self, folder: &str, ending: &str) -> Result<Vec<String>, BucketError>;
    /// Removes a folder recursively.
    fn remove_folder(&self, folder: &str) -> Result<(), BucketError>;
}

/// Files in a directory.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    /// The files below a directory.
    #[must_use]
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }
}

impl Bucket for Folder {
    fn read(&self, key: &str) -> Result<Option<Vec<u8>>, BucketError> {
        Ok(file::read(&self.path(key))?)
    }

    fn write(&self, key: &str, content: &[u8]) -> Result<(), BucketError> {
        let durable = is_state(key);
        Ok(file::write(&self.path(key), content, durable)?)
    }

    fn write_for_now(&self, key: &str, content: &[u8]) -> Result<(), BucketError> {
        let durable = is_state(key);
        Ok(file::write_bare(&self.path(key), content, durable)?)
    }

    fn remove(&self, key: &str) -> Result<(), BucketError> {
        Ok(file::remove(&self.path(key))?)
    }

    fn list(&self, folder: &str, ending: &str) -> Result<Vec<String>, BucketError> {
        let paths = file::list(&self.path(folder), ending)?;
        let name = |path: &Path| Some(path.file_name()?.to_string_lossy().into_owned());
        Ok(paths
            .iter()
            .filter_map(|path| Some(format!("{folder}/{}", name(path)?)))
            .collect())
    }

    fn remove_folder(&self, folder: &str) -> Result<(), BucketError> {
        match std::fs::remove_dir_all(self.path(folder)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Only states are synced to disk.
fn is_state(key: &str) -> bool {
    key.starts_with(".pulumi/stacks/")
}
