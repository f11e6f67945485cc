//! `agent bootstrap`: puts the agent onto the volume that a workspace's containers share, so that it
//! runs in an image that knows nothing of it. No shell and no `cp` is needed.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::args::Bootstrap;

/// The embedded engine goes along where there is one: the agent looks for it beside itself.
const ENGINE: &str = "pulumi-engine";

pub(crate) fn run(arguments: &Bootstrap) -> anyhow::Result<()> {
    copy_to(&arguments.target_dir)
}

/// Copies this program to a folder.
pub(super) fn copy_to(folder: &Path) -> anyhow::Result<()> {
    let agent = std::env::current_exe().context("failed to find this program")?;
    copy(&agent, &folder.join("agent"))?;
    let engine = agent.with_file_name(ENGINE);
    if engine.is_file() {
        copy(&engine, &folder.join(ENGINE))?;
    }
    Ok(())
}

fn copy(program: &Path, target: &Path) -> anyhow::Result<()> {
    place(program, target).with_context(|| {
        format!(
            "failed to copy {} to {}",
            program.display(),
            target.display()
        )
    })?;
    tracing::info!(program = %target.display(), "Copied");
    Ok(())
}

/// In one step: an agent that runs from there already goes on with the old one.
fn place(program: &Path, target: &Path) -> io::Result<()> {
    let folder = target.parent().map_or_else(PathBuf::new, Path::to_owned);
    fs::create_dir_all(&folder)?;
    let mut copy = tempfile::NamedTempFile::new_in(&folder)?;
    io::copy(&mut fs::File::open(program)?, &mut copy)?;
    // The workspace's container may have another user.
    copy.as_file()
        .set_permissions(Permissions::from_mode(0o755))?;
    copy.persist(target)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_copy_is_executable_and_atomic() {
        let folder = tempfile::tempdir().unwrap();
        let (program, target) = (
            folder.path().join("program"),
            folder.path().join("share/agent"),
        );
        for text in ["one", "two"] {
            fs::write(&program, text).unwrap();
            place(&program, &target).unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), text);
            let mode = target.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755);
        }
        let left = fs::read_dir(folder.path().join("share")).unwrap().count();
        assert_eq!(left, 1, "nothing else is left there");
    }
}
