//! Builds components from their Go modules, once per cache, also for concurrent callers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output};
use std::time::Instant;

use super::build_dir::{GoBuildDir, attempt, run, short_digest};
use super::pinned_modules::PinnedModules;
use super::{BuildEnvironment, Component, ComponentsError};
use crate::last_lines::last_lines;

const FLAGS: [&str; 2] = ["-mod=readonly", "-trimpath"];
/// How Go and the kernel name a disk without room.
const DISK_FULL: &str = "no space left on device";

/// Programs of the cache. Each module has a folder that belongs to one set of pinned versions and
/// build flags.
#[derive(Clone, Debug)]
pub(super) struct ComponentBuild(GoBuildDir);

impl ComponentBuild {
    /// In the cache of these environment.
    pub(super) fn of(environment: &BuildEnvironment) -> Result<Self, ComponentsError> {
        Ok(Self(GoBuildDir::of(environment, "components")?))
    }

    /// The path of a program; it is built if it is not there.
    ///
    /// A program gets its name only when it is complete, so one that is there can be used without
    /// asking for the lock.
    pub(super) fn path(&self, component: Component) -> Result<PathBuf, ComponentsError> {
        self.all(&[component])?;
        Ok(self.file(component))
    }

    /// Builds those that are missing, with one `go build` for each module.
    pub(super) fn all(&self, components: &[Component]) -> Result<(), ComponentsError> {
        let mut left = self.missing(components);
        while let Some(first) = left.first() {
            let pinned_modules = first.pinned_modules();
            let (group, rest): (Vec<_>, Vec<_>) = left
                .into_iter()
                .partition(|it| it.pinned_modules() == pinned_modules);
            self.build_module(pinned_modules, &group)?;
            left = rest;
        }
        Ok(())
    }

    fn file(&self, component: Component) -> PathBuf {
        self.folder(component.pinned_modules())
            .join(file_name(component))
    }

    fn folder(&self, pinned_modules: PinnedModules) -> PathBuf {
        self.0.directory.join(fingerprint(pinned_modules))
    }

    fn missing(&self, components: &[Component]) -> Vec<Component> {
        let is_missing = |component: &Component| !self.file(*component).is_file();
        components.iter().copied().filter(is_missing).collect()
    }

    fn build_module(
        &self,
        pinned_modules: PinnedModules,
        wanted: &[Component],
    ) -> Result<(), ComponentsError> {
        let go = self.0.go(&pinned_modules.go())?;
        let build_dir = self.0.at(self.folder(pinned_modules));
        let _lock = build_dir.lock(&names(wanted))?;
        // Another process may have built them while this one waited for the lock
        let missing = self.missing(wanted);
        if missing.is_empty() {
            return Ok(());
        }
        build_dir.write_module(pinned_modules.go_mod(), pinned_modules.go_sum())?;
        for component in &missing {
            write_source(&build_dir, *component)?;
        }
        let names = names(&missing);
        (build_dir.say)(format_args!("building {names} (once; minutes) ..."));
        let start = Instant::now();
        // A unique name: the build of a killed process may still write to its files
        let unfinished = build_dir
            .directory
            .join(format!("unfinished-{}", process::id()));
        let output = run(command(
            &build_dir,
            pinned_modules,
            &missing,
            &go,
            &unfinished,
        )?)?;
        if !output.status.success() {
            let _ = fs::remove_dir_all(&unfinished);
            return Err(failure(names, &build_dir.directory, &output));
        }
        for component in missing {
            let built = unfinished.join(component.built_name());
            attempt("rename", &built, |built| {
                fs::rename(built, self.file(component))
            })?;
        }
        let _ = fs::remove_dir_all(&unfinished);
        let seconds = start.elapsed().as_secs();
        (build_dir.say)(format_args!("built {names} in {seconds} s"));
        Ok(())
    }
}

fn names(components: &[Component]) -> String {
    let names: Vec<&str> = components
        .iter()
        .map(|component| component.name())
        .collect();
    names.join(", ")
}

fn write_source(build_dir: &GoBuildDir, component: Component) -> Result<(), ComponentsError> {
    let Some(source) = component.source() else {
        return Ok(());
    };
    let folder = build_dir.directory.join(component.name());
    attempt("create", &folder, |path| fs::create_dir_all(path))?;
    attempt("write", &folder.join("main.go"), |path| {
        fs::write(path, source)
    })
}

/// One `go build` for all of them: shared packages are compiled once.
fn command(
    build_dir: &GoBuildDir,
    pinned_modules: PinnedModules,
    components: &[Component],
    go: &Path,
    output: &Path,
) -> Result<Command, ComponentsError> {
    attempt("create", output, |path| fs::create_dir_all(path))?;
    let mut command = build_dir.command(go);
    command
        .arg("build")
        .args(FLAGS)
        .arg(format!("-ldflags={}", pinned_modules.linker_flags()?))
        .arg("-o")
        // With the slash at its end it is a folder for the programs, even for a single one
        .arg(output.join(""))
        .args(components.iter().map(|component| component.package()));
    Ok(command)
}

/// The file name of a program, with a digest of its source if that is ours.
fn file_name(component: Component) -> String {
    match component.source() {
        Some(source) => format!("{}-{}", component.name(), short_digest([source])),
        None => component.name().to_owned(),
    }
}

/// Names the versions and the way of building, so that a change of either builds again.
fn fingerprint(pinned_modules: PinnedModules) -> String {
    let linker_flags = pinned_modules.linker_flags().unwrap_or_default();
    short_digest([
        pinned_modules.go_mod(),
        pinned_modules.go_sum(),
        &FLAGS.join(" "),
        &linker_flags,
    ])
}

fn failure(names: String, folder: &Path, output: &Output) -> ComponentsError {
    if String::from_utf8_lossy(&output.stderr).contains(DISK_FULL) {
        return ComponentsError::DiskFull {
            names,
            folder: folder.to_owned(),
        };
    }
    ComponentsError::Build {
        names,
        status: output.status,
        output: last_lines(&output.stderr),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::{OsStr, OsString};
    use std::thread;

    use super::super::build_dir::tests::build_dir_with_go;
    use super::*;

    fn with_go(script: &str) -> (tempfile::TempDir, ComponentBuild) {
        let (folder, build_dir) = build_dir_with_go(script);
        (folder, ComponentBuild(build_dir))
    }

    #[test]
    fn concurrent_callers_build_once() {
        // $6 is the argument of `-o`
        let (folder, build) =
            with_go("sleep 0.1; echo x >>\"$(dirname \"$0\")/builds\"; echo ok >\"$6/server\"");
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
    fn module_is_built_by_one_go_build() {
        let (folder, build) = with_go(
            "echo x >>\"$(dirname \"$0\")/builds\"\n\
             out=$6; shift 6; for it; do echo ok >\"$out/$(basename \"${it%/v3}\")\"; done",
        );
        let wanted = [
            Component::Etcd,
            Component::Pulumi,
            Component::Kubectl,
            Component::PulumiLanguageYaml,
        ];
        build.all(&wanted).unwrap();
        for component in wanted {
            assert!(build.path(component).unwrap().is_file());
        }
        let builds = fs::read_to_string(folder.path().join("builds")).unwrap();
        assert_eq!(builds, "x\nx\n", "one for Kubernetes, one for Pulumi");
    }

    #[test]
    fn failed_build_leaves_no_program_and_shows_output() {
        let (_folder, build) = with_go(
            "echo half >\"$6/kubectl\"; seq 1 30 >&2; echo 'checksum mismatch' >&2; exit 1",
        );
        let error = build.path(Component::Kubectl).unwrap_err().to_string();
        assert!(
            error.starts_with("failed to build kubectl (exit status: 1)"),
            "{error}"
        );
        assert!(error.ends_with("  30\n  checksum mismatch\n"), "{error}");
        assert!(!error.contains("\n  5\n"), "{error}");
        let left = fs::read_dir(build.folder(PinnedModules::Kubernetes)).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert!(!left.contains(&"kubectl".into()), "{left:?}");
        assert!(
            left.iter()
                .all(|name| !name.to_string_lossy().starts_with("unfinished")),
            "{left:?}"
        );
    }

    #[test]
    fn full_disk_is_reported_with_remedy() {
        let (_folder, build) =
            with_go("echo 'write /tmp/go-link: no space left on device' >&2; exit 1");
        let error = build.path(Component::Kubectl).unwrap_err().to_string();
        assert!(
            error.starts_with("failed to build kubectl: the disk is full; free some space at /"),
            "{error}"
        );
        assert!(error.ends_with(", or set PKO_CACHE to a folder on another disk"));
    }

    #[test]
    fn go_mod_is_written_to_build_folder() {
        let (_folder, build) = with_go("cp go.mod \"$6/kube-apiserver\"");
        let path = build.path(Component::KubeApiserver).unwrap();
        assert_eq!(
            fs::read_to_string(path).unwrap(),
            PinnedModules::Kubernetes.go_mod()
        );
    }

    #[test]
    fn go_settings_of_caller_are_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let build_dir = GoBuildDir::new(folder.path().into(), OsString::new());
        let output = folder.path().join("out");
        let command = command(
            &build_dir,
            PinnedModules::Kubernetes,
            &[Component::Etcd],
            Path::new("go"),
            &output,
        )
        .unwrap();
        let setting = |name: &str| command.get_envs().find(|(key, _)| *key == OsStr::new(name));
        assert_eq!(setting("GOWORK").unwrap().1, Some(OsStr::new("off")));
        assert_eq!(setting("GOOS").unwrap().1, None);
        assert!(command.get_args().any(|flag| flag == "-mod=readonly"));
    }
}
