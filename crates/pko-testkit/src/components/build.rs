//! Builds components from their Go modules, once per cache, however many processes ask.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::time::Instant;

use super::workshop::{Workshop, attempt, run, short_digest};
use super::{Component, ComponentsError, Surroundings, pins};
use crate::last_lines::last_lines;

const FLAGS: [&str; 2] = ["-mod=readonly", "-trimpath"];

/// A folder of the cache that belongs to one set of pinned versions and build flags.
#[derive(Clone, Debug)]
pub(super) struct Build(Workshop);

impl Build {
    /// In the cache of these surroundings.
    pub(super) fn of(surroundings: &Surroundings) -> Result<Self, ComponentsError> {
        let folder = format!("components/{}", fingerprint());
        Ok(Self(Workshop::of(surroundings, &folder)?))
    }

    /// The path of a program; it is built if it is not there.
    ///
    /// A program gets its name only when it is complete, so one that is there can be used without
    /// asking for the lock.
    pub(super) fn path(&self, component: Component) -> Result<PathBuf, ComponentsError> {
        let path = self.0.directory.join(file_name(component));
        if path.is_file() {
            return Ok(path);
        }
        let go = self.0.go()?;
        let _lock = self.0.lock(component.name())?;
        if !path.is_file() {
            self.build(component, &go, &path)?;
        }
        Ok(path)
    }

    fn build(&self, component: Component, go: &Path, path: &Path) -> Result<(), ComponentsError> {
        self.0.write_module(pins::GO_MOD, pins::GO_SUM)?;
        self.write_source(component)?;
        let name = component.name();
        let version = pins::version(component)?;
        (self.0.say)(format_args!(
            "building {name} {version} (once; a few minutes) ..."
        ));
        let start = Instant::now();
        // Its own name: a build whose process was killed may still be writing to its file
        let unfinished = path.with_extension(format!("unfinished-{}", process::id()));
        let output = run(self.command(component, go, &unfinished)?)?;
        if !output.status.success() {
            return Err(failure(component, &output));
        }
        attempt("rename", &unfinished, |unfinished| {
            fs::rename(unfinished, path)
        })?;
        (self.0.say)(format_args!(
            "built {name} {version} in {} s",
            start.elapsed().as_secs()
        ));
        Ok(())
    }

    fn write_source(&self, component: Component) -> Result<(), ComponentsError> {
        let Some(source) = component.source() else {
            return Ok(());
        };
        let folder = self.0.directory.join(component.name());
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
        let mut command = self.0.command(go);
        command
            .arg("build")
            .args(FLAGS)
            .arg(format!("-ldflags={}", pins::linker_flags()?))
            .arg("-o")
            .arg(output)
            .arg(component.package());
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

fn failure(component: Component, output: &Output) -> ComponentsError {
    ComponentsError::Build {
        name: component.name(),
        status: output.status,
        output: last_lines(&output.stderr),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};
    use std::thread;

    use super::super::workshop::tests::workshop_with_go;
    use super::*;

    fn with_go(script: &str) -> (tempfile::TempDir, Build) {
        let (folder, workshop) = workshop_with_go(script);
        (folder, Build(workshop))
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
        assert!(!build.0.directory.join("kubectl").exists());
    }

    #[test]
    fn the_module_is_written_where_it_is_built() {
        let (_folder, build) = with_go("cp go.mod \"$6\"");
        let path = build.path(Component::KubeApiserver).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), pins::GO_MOD);
    }

    #[test]
    fn settings_for_other_builds_do_not_reach_ours() {
        let build = Build(Workshop::new("/cache".into(), OsString::new()));
        let command = build
            .command(Component::Etcd, Path::new("go"), Path::new("etcd"))
            .unwrap();
        let setting = |name: &str| command.get_envs().find(|(key, _)| *key == OsStr::new(name));
        assert_eq!(setting("GOWORK").unwrap().1, Some(OsStr::new("off")));
        assert_eq!(setting("GOOS").unwrap().1, None);
        assert!(command.get_args().any(|flag| flag == "-mod=readonly"));
    }
}
