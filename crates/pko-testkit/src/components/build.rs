//! Builds components from their Go modules, once per cache, however many processes ask.

use std::env;
use std::ffi::OsString;
use std::fmt::{Arguments, Write as _};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::time::Instant;

use sha2::{Digest, Sha256};

use super::{Component, ComponentsError, Surroundings, absolute, cache, pins};
use crate::last_lines::last_lines;

const FLAGS: [&str; 2] = ["-mod=readonly", "-trimpath"];

/// A folder of the cache that belongs to one set of pinned versions and build flags.
#[derive(Clone, Debug)]
pub(super) struct Build {
    directory: PathBuf,
    search_path: OsString,
    say: fn(Arguments<'_>),
}

impl Build {
    /// In the cache of these surroundings.
    pub(super) fn of(surroundings: &Surroundings) -> Result<Self, ComponentsError> {
        let cache = absolute(cache::directory(surroundings).ok_or(ComponentsError::NoCache)?)?;
        let search_path = surroundings.search_path.clone().unwrap_or_default();
        Ok(Self::new(&cache, search_path))
    }

    pub(super) fn new(cache: &Path, search_path: OsString) -> Self {
        let directory = cache.join("components").join(fingerprint());
        Self {
            directory,
            search_path,
            say,
        }
    }

    /// The path of a program; it is built if it is not there.
    ///
    /// A program gets its name only when it is complete, so one that is there can be used without
    /// asking for the lock.
    pub(super) fn path(&self, component: Component) -> Result<PathBuf, ComponentsError> {
        let path = self.directory.join(file_name(component));
        if path.is_file() {
            return Ok(path);
        }
        let go = self.go()?;
        let _lock = self.lock(component)?;
        if !path.is_file() {
            self.build(component, &go, &path)?;
        }
        Ok(path)
    }

    fn go(&self) -> Result<PathBuf, ComponentsError> {
        env::split_paths(&self.search_path)
            .map(|directory| directory.join(format!("go{}", env::consts::EXE_SUFFIX)))
            .find(|path| path.is_file())
            .ok_or_else(|| ComponentsError::NoGo {
                version: pins::go(),
            })
    }

    /// Waits until no other process builds here. The lock ends with the file handle, and so with
    /// the process, however that ends.
    fn lock(&self, component: Component) -> Result<File, ComponentsError> {
        attempt("create", &self.directory, |path| fs::create_dir_all(path))?;
        let path = self.directory.join("lock");
        let file = attempt("open", &path, |path| File::create(path))?;
        if file.try_lock().is_err() {
            (self.say)(format_args!(
                "waiting for another process that builds {} ...",
                component.name()
            ));
            attempt("lock", &path, |_| file.lock())?;
        }
        Ok(file)
    }

    fn build(&self, component: Component, go: &Path, path: &Path) -> Result<(), ComponentsError> {
        self.write_module()?;
        self.write_source(component)?;
        let name = component.name();
        let version = pins::version(component)?;
        (self.say)(format_args!(
            "building {name} {version} (once; a few minutes) ..."
        ));
        let start = Instant::now();
        // Its own name: a build whose process was killed may still be writing to its file
        let unfinished = path.with_extension(format!("unfinished-{}", process::id()));
        let output = self
            .command(component, go, &unfinished)?
            .output()
            .map_err(|source| ComponentsError::Run {
                program: go.to_owned(),
                source,
            })?;
        if !output.status.success() {
            return Err(failure(component, &output));
        }
        attempt("rename", &unfinished, |unfinished| {
            fs::rename(unfinished, path)
        })?;
        (self.say)(format_args!(
            "built {name} {version} in {} s",
            start.elapsed().as_secs()
        ));
        Ok(())
    }

    fn write_module(&self) -> Result<(), ComponentsError> {
        for (name, text) in [("go.mod", pins::GO_MOD), ("go.sum", pins::GO_SUM)] {
            attempt("write", &self.directory.join(name), |path| {
                fs::write(path, text)
            })?;
        }
        Ok(())
    }

    fn write_source(&self, component: Component) -> Result<(), ComponentsError> {
        let Some(source) = component.source() else {
            return Ok(());
        };
        let folder = self.directory.join(component.name());
        attempt("create", &folder, |path| fs::create_dir_all(path))?;
        attempt("write", &folder.join("main.go"), |path| {
            fs::write(path, source)
        })
    }

    fn command(
        &self,
        component: Component,
        go: &Path,
        output: &Path,
    ) -> Result<Command, ComponentsError> {
        let mut command = Command::new(go);
        command
            .current_dir(&self.directory)
            .arg("build")
            .args(FLAGS)
            .arg(format!("-ldflags={}", pins::linker_flags()?))
            .arg("-o")
            .arg(output)
            .arg(component.package())
            .env("PATH", &self.search_path)
            .env("CGO_ENABLED", "0")
            .env("GO111MODULE", "on")
            // A workspace around the cache, or a cross build's settings, are not meant for us
            .env("GOWORK", "off")
            .env_remove("GOOS")
            .env_remove("GOARCH");
        Ok(command)
    }
}

/// The name of a program; one of ours is built anew when its source has changed.
fn file_name(component: Component) -> String {
    match component.source() {
        Some(source) => format!("{}-{}", component.name(), short_digest([source])),
        None => component.name().to_owned(),
    }
}

/// Names the versions and the way of building, so that a change of either builds anew.
fn fingerprint() -> String {
    let linker_flags = pins::linker_flags().unwrap_or_default();
    short_digest([pins::GO_MOD, pins::GO_SUM, &FLAGS.join(" "), &linker_flags])
}

fn short_digest<const N: usize>(parts: [&str; N]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
    }
    digest
        .finalize()
        .iter()
        .take(8)
        .fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn failure(component: Component, output: &Output) -> ComponentsError {
    ComponentsError::Build {
        name: component.name(),
        status: output.status,
        output: last_lines(&output.stderr),
    }
}

fn attempt<T>(
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

/// Writes past the capture of test output: whoever waits for minutes should see why.
fn say(message: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{message}");
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::thread;

    use super::*;

    fn with_go(script: &str) -> (tempfile::TempDir, Build) {
        let folder = tempfile::tempdir().unwrap();
        let go = folder.path().join("go");
        // Written by another process: a file that this one has open for writing can't be run, and
        // a process that another thread starts at this moment has it open for an instant too
        let write = "printf '#!/bin/sh\n%s' \"$1\" >\"$2\" && chmod +x \"$2\"";
        let mut writer = Command::new("sh");
        writer.args(["-c", write, "sh", script]).arg(&go);
        assert!(writer.status().unwrap().success());
        let path = format!("{}:/usr/bin:/bin", folder.path().display());
        let mut build = Build::new(&folder.path().join("cache"), path.into());
        build.say = |_| ();
        (folder, build)
    }

    #[test]
    fn many_askers_build_once() {
        // $6 is what follows `-o`
        let (folder, build) =
            with_go("sleep 0.1; echo x >>\"$(dirname \"$0\")/builds\"; echo ok >\"$6\"");
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| build.path(Component::Etcd).unwrap());
            }
        });
        assert_eq!(
            fs::read_to_string(folder.path().join("builds")).unwrap(),
            "x\n"
        );
        assert!(build.path(Component::Etcd).unwrap().ends_with("etcd"));
    }

    #[test]
    fn a_failed_build_leaves_no_program_and_shows_the_end_of_its_output() {
        let (_folder, build) =
            with_go("echo half >\"$6\"; seq 1 30 >&2; echo 'checksum mismatch' >&2; exit 1");
        let error = build.path(Component::Kubectl).unwrap_err().to_string();
        assert!(
            error.starts_with("failed to build kubectl (exit status: 1)"),
            "{error}"
        );
        assert!(error.ends_with("  30\n  checksum mismatch\n"), "{error}");
        assert!(!error.contains("\n  5\n"), "{error}");
        assert!(!build.directory.join("kubectl").exists());
    }

    #[test]
    fn the_module_is_written_where_it_is_built() {
        let (_folder, build) = with_go("cp go.mod \"$6\"");
        let path = build.path(Component::KubeApiserver).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), pins::GO_MOD);
    }

    #[test]
    fn settings_for_other_builds_do_not_reach_ours() {
        let build = Build::new(Path::new("/cache"), OsString::new());
        let command = build
            .command(Component::Etcd, Path::new("go"), Path::new("etcd"))
            .unwrap();
        let setting = |name: &str| command.get_envs().find(|(key, _)| *key == OsStr::new(name));
        assert_eq!(setting("GOWORK").unwrap().1, Some(OsStr::new("off")));
        assert_eq!(setting("GOOS").unwrap().1, None);
        assert!(command.get_args().any(|flag| flag == "-mod=readonly"));
    }
}
