//! `agent bootstrap`: copies the agent to the volume that a workspace's containers share, so that
//! it runs in any image. It needs neither a shell nor `cp`.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::Context;

use crate::args::Bootstrap;

/// Copied along if present: the agent searches the embedded engine beside itself.
const ENGINE: &str = "pulumi-engine";

pub(crate) fn run(arguments: &Bootstrap) -> anyhow::Result<()> {
    copy_to(&arguments.target_dir)
}

pub(super) fn copy_to(folder: &Path) -> anyhow::Result<()> {
    let agent = std::env::current_exe().context("failed to locate the agent's own program")?;
    copy(&agent, &folder.join("agent"))?;
    let engine = agent.with_file_name(ENGINE);
    if engine.is_file() {
        copy(&engine, &folder.join(ENGINE))?;
    }
    Ok(())
}

fn copy(program: &Path, target: &Path) -> anyhow::Result<()> {
    install(program, target).with_context(|| {
        format!(
            "failed to copy {} to {}",
            program.display(),
            target.display()
        )
    })?;
    tracing::info!(program = %target.display(), "Copied");
    Ok(())
}

/// Atomic: an agent that already runs from there keeps the old file.
fn install(program: &Path, target: &Path) -> io::Result<()> {
    let folder = target.parent().map_or_else(PathBuf::new, Path::to_owned);
    fs::create_dir_all(&folder)?;
    let mut copy = tempfile::NamedTempFile::new_in(&folder)?;
    io::copy(&mut fs::File::open(program)?, &mut copy)?;
    // The workspace's container may run as another user.
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
            install(&program, &target).unwrap();
            assert_eq!(fs::read_to_string(&target).unwrap(), text);
            let mode = target.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o755);
        }
        let left = fs::read_dir(folder.path().join("share")).unwrap().count();
        assert_eq!(left, 1, "nothing else is left there");
    }
}
