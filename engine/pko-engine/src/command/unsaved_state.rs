//! The local file of a state that the backend did not take.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::bail;
use jiff::Timestamp;
use pulumi_engine_model::urn::StackIdentity;
use pulumi_engine_state::{checkpoint::Checkpoint, file};

use super::transfer;
use crate::workspace;

/// Writes the document that `stack import` reads. Secrets stay encrypted. Returns a sentence that
/// names the file and the command.
pub(super) fn write(stack: &StackIdentity, checkpoint: &Checkpoint) -> anyhow::Result<String> {
    let document = transfer::document(checkpoint, &checkpoint.deployment())?;
    let name = format!(
        "unsaved-state-{}-{}-{}.json",
        stack.project,
        stack.name,
        Timestamp::now().as_millisecond()
    );
    let path = write_to_first(&directories(), &name, &document)?;
    Ok(format!(
        "it is in the local file {path} and nowhere else. When the backend works again, and before the \
         next run, import it where this ran: `pulumi stack import --stack {} --file {path}`",
        stack.name,
        path = path.display()
    ))
}

/// The backend may be on a volume that is full or gone, so there are several.
fn directories() -> [PathBuf; 2] {
    [workspace::home(), std::env::temp_dir()]
}

/// Writes to the first directory that takes the file.
fn write_to_first(directories: &[PathBuf], name: &str, content: &[u8]) -> anyhow::Result<PathBuf> {
    let mut errors = Vec::new();
    for directory in directories {
        let path = std::path::absolute(directory)?.join(name);
        let written =
            fs::create_dir_all(parent(&path)).and_then(|()| file::write_private(&path, content));
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

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
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
}
