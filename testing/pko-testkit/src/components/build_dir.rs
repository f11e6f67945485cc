//! A folder of the cache in which Go builds, for one process at a time.

use std::env;
use std::ffi::OsString;
use std::fmt::Arguments;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sha2::{Digest, Sha256};

use super::{BuildEnvironment, ComponentsError, absolute, cache};

/// The folder, and where `go` is looked for.
#[derive(Clone, Debug)]
pub(super) struct GoBuildDir {
    pub(super) directory: PathBuf,
    pub(super) search_path: OsString,
    pub(super) say: fn(Arguments<'_>),
}

impl GoBuildDir {
    /// A folder of this name in the cache of these environment.
    pub(super) fn of(
        environment: &BuildEnvironment,
        folder: &str,
    ) -> Result<Self, ComponentsError> {
        let cache = absolute(cache::directory(environment).ok_or(ComponentsError::NoCache)?)?;
        let search_path = environment.search_path.clone().unwrap_or_default();
        Ok(Self::new(cache.join(folder), search_path))
    }

    pub(super) fn new(directory: PathBuf, search_path: OsString) -> Self {
        Self {
            directory,
            search_path,
            say,
        }
    }

    /// The same for another folder.
    pub(super) fn at(&self, directory: PathBuf) -> Self {
        Self {
            directory,
            ..self.clone()
        }
    }

    /// Where `go` is; `version` is the oldest that will do, for who has none.
    pub(super) fn go(&self, version: &str) -> Result<PathBuf, ComponentsError> {
        env::split_paths(&self.search_path)
            .map(|directory| directory.join(format!("go{}", env::consts::EXE_SUFFIX)))
            .find(|path| path.is_file())
            .ok_or_else(|| ComponentsError::NoGo {
                version: version.to_owned(),
            })
    }

    /// Waits until no other process works here. The lock ends with the file handle, and so with
    /// the process, however that ends.
    pub(super) fn lock(&self, name: &str) -> Result<File, ComponentsError> {
        attempt("create", &self.directory, |path| fs::create_dir_all(path))?;
        let path = self.directory.join("lock");
        let file = attempt("open", &path, |path| File::create(path))?;
        if file.try_lock().is_err() {
            (self.say)(format_args!(
                "waiting for another process that makes {name} ..."
            ));
            attempt("lock", &path, |_| file.lock())?;
        }
        Ok(file)
    }

    pub(super) fn write_module(&self, go_mod: &str, go_sum: &str) -> Result<(), ComponentsError> {
        for (name, text) in [("go.mod", go_mod), ("go.sum", go_sum)] {
            attempt("write", &self.directory.join(name), |path| {
                fs::write(path, text)
            })?;
        }
        Ok(())
    }

    /// A Go command in this folder, independent of the caller's Go settings.
    pub(super) fn command(&self, go: &Path) -> Command {
        let mut command = Command::new(go);
        command
            .current_dir(&self.directory)
            .env("PATH", &self.search_path)
            .env("CGO_ENABLED", "0")
            .env("GO111MODULE", "on")
            // A workspace around the cache, or a cross build's settings, are not meant for us
            .env("GOWORK", "off")
            .env_remove("GOOS")
            .env_remove("GOARCH");
        command
    }
}

pub(super) fn run(mut command: Command) -> Result<Output, ComponentsError> {
    command.output().map_err(|source| ComponentsError::Run {
        program: command.get_program().into(),
        source,
    })
}

/// A name for contents: other contents have another one.
pub(super) fn short_digest<const N: usize>(parts: [&str; N]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    let mut digest = hex::encode(digest.finalize());
    digest.truncate(16);
    digest
}

pub(super) fn attempt<T>(
    action: &'static str,
    path: &Path,
    operation: impl FnOnce(&Path) -> io::Result<T>,
) -> Result<T, ComponentsError> {
    operation(path).map_err(|source| ComponentsError::Cache {
        action,
        path: path.to_owned(),
        source,
    })
}

/// Bypasses the capture of test output, so that a wait of minutes is explained.
fn say(message: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{message}");
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A build directory in which `go` is a script.
    pub(in super::super) fn build_dir_with_go(script: &str) -> (tempfile::TempDir, GoBuildDir) {
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        // Written by another process: a file that this one has open for writing can't be run, and
        // a process that another thread starts at this moment has it open for an instant too
        let write = "printf '#!/bin/sh\n%s' \"$1\" >\"$2\" && chmod +x \"$2\"";
        let mut writer = Command::new("sh");
        writer.args(["-c", write, "sh", script]).arg(&go);
        assert!(writer.status().unwrap().success());
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let mut build_dir = GoBuildDir::new(folder.path().join("cache"), path.into());
        build_dir.say = |_| ();
        (folder, build_dir)
    }
}
