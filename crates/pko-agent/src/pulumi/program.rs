//! Locates the `pulumi` program.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

const PROGRAM_VARIABLE: &str = "PKO_PULUMI";
/// The embedded engine, which has the same command line.
const ENGINE: &str = "pulumi-engine";

#[derive(Debug, thiserror::Error)]
#[error(
    "failed to find `pulumi`: $PKO_PULUMI is not set, `pulumi` is not on the PATH, and there is no `pulumi-engine` beside the agent"
)]
pub(crate) struct NoPulumi;

/// `$PKO_PULUMI`, else `pulumi` on the PATH, else the embedded engine beside the agent itself.
pub(crate) fn locate() -> Result<PathBuf, NoPulumi> {
    let agent = std::env::current_exe().ok();
    choose(
        std::env::var_os(PROGRAM_VARIABLE).as_deref(),
        std::env::var_os("PATH").as_deref(),
        agent.as_deref().and_then(Path::parent),
    )
}

fn choose(
    explicit: Option<&OsStr>,
    path: Option<&OsStr>,
    beside: Option<&Path>,
) -> Result<PathBuf, NoPulumi> {
    if let Some(explicit) = explicit.filter(|explicit| !explicit.is_empty()) {
        let explicit = PathBuf::from(explicit);
        // The CLI runs in another folder. A bare name is searched on the PATH.
        let is_path = explicit.components().count() > 1;
        return Ok(match std::path::absolute(&explicit) {
            Ok(absolute) if is_path => absolute,
            _ => explicit,
        });
    }
    let on_path =
        std::env::split_paths(path.unwrap_or_default()).map(|folder| folder.join("pulumi"));
    let engine = beside.map(|folder| folder.join(ENGINE));
    on_path
        .chain(engine)
        .find(|file| is_executable(file))
        .ok_or(NoPulumi)
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn executable(folder: &Path, name: &str) -> PathBuf {
        let file = folder.join(name);
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    #[test]
    fn pulumi_is_located_by_variable_path_and_engine() {
        let (path, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let choose = |explicit: Option<&str>| {
            let explicit = explicit.map(OsStr::new);
            choose(explicit, Some(path.path().as_os_str()), Some(beside.path()))
        };
        assert!(choose(None).is_err());
        let engine = executable(beside.path(), ENGINE);
        assert_eq!(choose(None).unwrap(), engine);
        fs::write(path.path().join("pulumi"), "not executable").unwrap();
        assert_eq!(choose(None).unwrap(), engine);
        let pulumi = executable(path.path(), "pulumi");
        assert_eq!(choose(None).unwrap(), pulumi);
        assert_eq!(choose(Some("/named")).unwrap(), Path::new("/named"));
        assert_eq!(choose(Some("")).unwrap(), pulumi);
        assert_eq!(choose(Some("pulumi-3")).unwrap(), Path::new("pulumi-3"));
        assert!(choose(Some("bin/pulumi")).unwrap().is_absolute());
    }
}
