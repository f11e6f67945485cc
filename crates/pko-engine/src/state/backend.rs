//! Where states live: a directory, in Pulumi's own layout.

use std::{
    io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use super::{
    checkpoint::{Checkpoint, CheckpointError},
    file, history,
};
use crate::urn::StackIdentity;

/// The one organization of file backends.
pub const ORGANIZATION: &str = "organization";

/// Why a backend cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Pulumi Cloud, and no token; the text is one that users and scripts know.
    #[error("PULUMI_ACCESS_TOKEN must be set for login during non-interactive CLI sessions")]
    Unauthenticated,
    /// A kind of backend this engine does not have.
    #[error("backend {0:?} is not supported by pulumi-engine, which has file:// backends")]
    Unsupported(String),
    /// A layout of another time.
    #[error("the state is in a layout that pulumi-engine does not support: {0}")]
    Layout(&'static str),
    /// The directory failed.
    #[error("failed to access the state")]
    Access(#[from] io::Error),
    /// A checkpoint is unusable.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// A file backend.
#[derive(Debug, Clone)]
pub struct Backend {
    url: String,
    root: PathBuf,
}

impl Backend {
    /// Opens the backend of a URL.
    pub fn open(url: &str) -> Result<Self, BackendError> {
        let Some(rest) = url.strip_prefix("file://") else {
            let cloud = url.starts_with("http://") || url.starts_with("https://");
            return if cloud && std::env::var_os("PULUMI_ACCESS_TOKEN").is_none() {
                Err(BackendError::Unauthenticated)
            } else {
                Err(BackendError::Unsupported(url.to_owned()))
            };
        };
        let path = rest.split_once('?').map_or(rest, |(path, _)| path);
        let root = match path.strip_prefix('~') {
            Some(inside) => {
                let home = std::env::var("HOME").unwrap_or_default();
                Path::new(&home).join(inside.trim_start_matches('/'))
            }
            None => std::path::absolute(path)?,
        };
        let url = format!("file://{}", path.trim_end_matches('/'));
        let backend = Self { url, root };
        backend.refuse_old_layout()?;
        Ok(backend)
    }

    /// Its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn stacks(&self) -> PathBuf {
        self.root.join(".pulumi/stacks")
    }

    fn checkpoint_path(&self, stack: &StackIdentity) -> PathBuf {
        self.stacks()
            .join(&stack.project)
            .join(format!("{}.json", stack.name))
    }

    /// Before projects had folders of their own, stacks were files in one.
    fn refuse_old_layout(&self) -> Result<(), BackendError> {
        let marked = self.root.join(".pulumi/meta.yaml").exists();
        if !marked && !file::list(&self.stacks(), ".json")?.is_empty() {
            return Err(BackendError::Layout(
                "no meta.yaml; run `pulumi state upgrade`",
            ));
        }
        Ok(())
    }

    /// Names of the stacks of a project.
    pub fn list(&self, project: &str) -> io::Result<Vec<String>> {
        let paths = file::list(&self.stacks().join(project), ".json")?;
        Ok(paths
            .iter()
            .filter_map(|path| {
                path.file_stem()
                    .map(|name| name.to_string_lossy().into_owned())
            })
            .collect())
    }

    /// The checkpoint of a stack; none if there is no such stack.
    pub fn load(&self, stack: &StackIdentity) -> Result<Option<Checkpoint>, BackendError> {
        let path = self.checkpoint_path(stack);
        if path.with_extension("json.gz").exists() {
            return Err(BackendError::Layout("checkpoints compressed with gzip"));
        }
        Ok(file::read(&path)?
            .map(|content| Checkpoint::parse(&content))
            .transpose()?)
    }

    /// Writes the checkpoint of a stack; the one before stays beside it.
    pub fn save(&self, stack: &StackIdentity, checkpoint: &Checkpoint) -> Result<(), BackendError> {
        let meta = self.root.join(".pulumi/meta.yaml");
        if !meta.exists() {
            file::write(&meta, b"version: 1\n")?;
        }
        let path = self.checkpoint_path(stack);
        let content = checkpoint.encode()?;
        if let Some(before) = file::read(&path)? {
            if before == content {
                return Ok(());
            }
            file::write(&path.with_extension("json.bak"), &before)?;
        }
        Ok(file::write(&path, &content)?)
    }

    /// Keeps a copy of a checkpoint, as the CLI does after each run.
    pub fn back_up(&self, stack: &StackIdentity, content: &[u8]) -> io::Result<()> {
        let name = format!("{}.{}.json", stack.name, Timestamp::now().as_nanosecond());
        let directory = self
            .root
            .join(".pulumi/backups")
            .join(&stack.project)
            .join(&stack.name);
        file::write(&directory.join(name), content)
    }

    /// Removes a stack and its history; its last state stays as a backup.
    pub fn remove(&self, stack: &StackIdentity) -> io::Result<()> {
        let path = self.checkpoint_path(stack);
        if let Some(content) = file::read(&path)? {
            file::write(&path.with_extension("json.bak"), &content)?;
        }
        file::remove(&path)?;
        history::remove(self, stack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_backends_are_refused_by_name() {
        for (url, expected) in [
            ("s3://bucket", "backend \"s3://bucket\" is not supported"),
            ("gs://bucket", "backend \"gs://bucket\" is not supported"),
            (
                "azblob://bucket",
                "backend \"azblob://bucket\" is not supported",
            ),
        ] {
            let error = Backend::open(url).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_state_from_before_projects_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        file::write(&directory.path().join(".pulumi/stacks/dev.json"), b"{}").unwrap();
        let url = format!("file://{}", directory.path().display());
        assert!(
            Backend::open(&url)
                .unwrap_err()
                .to_string()
                .contains("state upgrade")
        );
    }
}
