//! The local file of a state that the backend did not take.
//!
//! The next run of the same stack in the same place finds it, because that run would otherwise
//! create everything in it again. If the backend still has the state that the file follows, the
//! file becomes the state. Otherwise a person has to decide.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use pulumi_engine_model::urn::StackIdentity;
use pulumi_engine_state::{backend::Backend, checkpoint::Checkpoint, file};
use ring::digest::{SHA256, digest};

use super::{context::ProjectContext, transfer};
use crate::{display, workspace};

/// Begins the names of the files. No name of a project or stack has the separator.
const PREFIX: &str = "unsaved-state";
const SEPARATOR: char = '+';

/// Writes the document that `stack import` reads. Secrets stay encrypted. Returns a sentence that
/// names the file and the command.
pub(super) fn write(
    backend: &Backend,
    stack: &StackIdentity,
    checkpoint: &Checkpoint,
) -> anyhow::Result<String> {
    let document = transfer::document(checkpoint, &checkpoint.deployment())?;
    let name = file_name(backend, stack, Timestamp::now().as_millisecond());
    let path = write_to_first(&directories(), &name, &document)?;
    Ok(format!(
        "it is in the local file {path} and nowhere else. The next run in the same place saves it, unless \
         the state in the backend has changed meanwhile. To save it yourself: `pulumi stack import --stack {} --file {path}`",
        stack.name,
        path = path.display()
    ))
}

/// Saves the state that an earlier run of this stack could not save.
pub(super) fn recover(context: &ProjectContext, stack: &StackIdentity) -> anyhow::Result<()> {
    let backend = &context.backend;
    for path in files_of(&directories(), backend, stack) {
        context.require(stack)?;
        let shown = path.display();
        if base_of(&path) != Some(&*fingerprint(&backend.latest(stack))) {
            bail!(
                "the state of an earlier run, which could not be saved, is in the file {shown}, and the state in \
                 the backend has changed since. Compare them, then import the file with `pulumi stack import \
                 --stack {} --file {shown}`, or delete it",
                stack.name
            );
        }
        let deployment = transfer::read(stack, Some(&path.to_string_lossy()))?;
        let checkpoint = Checkpoint::new(stack.qualified(), Some(deployment));
        backend.save(stack, &checkpoint)?;
        forget(&path)?;
        display::note(&format!(
            "warning: the state of an earlier run, which could not be saved, was in the file {shown}; it is saved now"
        ));
    }
    Ok(())
}

/// Removes a file after its import. Other files stay.
pub(super) fn remove_imported(path: &str) -> anyhow::Result<()> {
    let path = Path::new(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with(&format!("{PREFIX}{SEPARATOR}")) {
        forget(path)?;
    }
    Ok(())
}

fn forget(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("failed to remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Project, stack, backend, and the state in the backend that the file follows.
fn file_name(backend: &Backend, stack: &StackIdentity, milliseconds: i64) -> String {
    let base = fingerprint(&backend.latest(stack));
    let start = start_of_name(backend, stack);
    format!("{start}{base}{SEPARATOR}{milliseconds}.json")
}

fn start_of_name(backend: &Backend, stack: &StackIdentity) -> String {
    let place = fingerprint(backend.url().as_bytes());
    let parts = [PREFIX, &stack.project, &stack.name, &place, ""];
    parts.join(&SEPARATOR.to_string())
}

/// The fingerprint in the name.
fn base_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.rsplit(SEPARATOR).nth(1)
}

fn fingerprint(content: &[u8]) -> String {
    let hash = hex::encode(digest(&SHA256, content));
    hash.chars().take(16).collect()
}

/// The files of a stack. A directory that cannot be read has none.
fn files_of(directories: &[PathBuf], backend: &Backend, stack: &StackIdentity) -> Vec<PathBuf> {
    let start = start_of_name(backend, stack);
    let entries = directories
        .iter()
        .flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
    let mut paths: Vec<_> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&start))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}

/// The backend may be on a volume that is full or gone, so there are several.
fn directories() -> [PathBuf; 2] {
    [workspace::home(), std::env::temp_dir()]
}

/// Writes to the first directory that takes the file.
fn write_to_first(directories: &[PathBuf], name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
    let mut errors = Vec::new();
    for directory in directories {
        let directory = std::path::absolute(directory)?;
        let path = directory.join(name);
        let written =
            fs::create_dir_all(&directory).and_then(|()| file::write_private(&path, content));
        match written {
            Ok(()) => return Ok(path),
            Err(error) => {
                // a part of it would only mislead
                let _ = fs::remove_file(&path);
                errors.push(format!("{}: {error}", path.display()));
            }
        }
    }
    bail!("failed to write {}", errors.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsaved_state_goes_to_the_next_directory() {
        let root = tempfile::tempdir().unwrap();
        let blocked = root.path().join("blocked");
        fs::write(&blocked, "").unwrap();
        let free = root.path().join("free");
        let path = write_to_first(&[blocked.clone(), free.clone()], "s.json", b"{}").unwrap();
        assert_eq!(path, free.join("s.json"));
        let error = write_to_first(&[blocked], "s.json", b"{}").unwrap_err();
        assert!(error.to_string().contains("blocked/s.json: "), "{error}");
    }

    #[test]
    fn unsaved_state_is_found_by_its_stack_only() {
        let root = tempfile::tempdir().unwrap();
        let url = format!("file://{}", root.path().display());
        let backend = Backend::open(&url).unwrap();
        let stack = |name: &str| StackIdentity {
            organization: "organization".into(),
            project: "demo".into(),
            name: name.into(),
        };
        let places = [root.path().to_owned(), "/does/not/exist".into()];
        let path = root.path().join(file_name(&backend, &stack("dev"), 1));
        fs::write(&path, "").unwrap();
        assert_eq!(base_of(&path), Some(&*fingerprint(b"")));
        assert_eq!(files_of(&places, &backend, &stack("dev")), [path]);
        for other in ["de", "dev-1", "prod"] {
            assert!(files_of(&places, &backend, &stack(other)).is_empty());
        }
    }
}
