//! Files of a Go module that are used unchanged: downloaded once per cache, checked by `go.sum`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Output};

use serde_json::Value;

use super::build_dir::{GoBuildDir, attempt, run, short_digest};
use super::pinned_modules::{PinnedModules, required_version};
use super::{BuildEnvironment, ComponentsError};
use crate::last_lines::last_lines;

/// A module, and the folder in it that is of use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoModule {
    /// Its path, such as `github.com/fluxcd/source-controller`.
    pub(crate) path: &'static str,
    pub(crate) folder: &'static str,
    /// Where its version is pinned.
    pub(crate) go_mod: &'static str,
    pub(crate) go_sum: &'static str,
}

impl GoModule {
    /// The files of its folder, in a folder of the cache; they are downloaded if they are not
    /// there.
    pub(crate) fn files(&self) -> Result<PathBuf, ComponentsError> {
        let fingerprint = short_digest([self.go_mod, self.go_sum, self.folder]);
        let folder = format!("modules/{fingerprint}");
        let build_dir = GoBuildDir::of(&BuildEnvironment::from_process(), &folder)?;
        self.files_in(&build_dir)
    }

    /// As with programs, a folder with the final name is complete.
    fn files_in(&self, build_dir: &GoBuildDir) -> Result<PathBuf, ComponentsError> {
        let files = build_dir.directory.join("files");
        if files.is_dir() {
            return Ok(files);
        }
        let go = build_dir.go(&PinnedModules::Kubernetes.go())?;
        let _lock = build_dir.lock(self.path)?;
        if !files.is_dir() {
            build_dir.write_module(self.go_mod, self.go_sum)?;
            let source = self.download(build_dir, &go)?.join(self.folder);
            let unfinished = files.with_extension(format!("unfinished-{}", process::id()));
            copy(&source, &unfinished)?;
            attempt("rename", &unfinished, |path| fs::rename(path, &files))?;
        }
        Ok(files)
    }

    /// Where Go keeps the module.
    fn download(&self, build_dir: &GoBuildDir, go: &Path) -> Result<PathBuf, ComponentsError> {
        let version = required_version(self.go_mod, self.path);
        let version = version.ok_or(ComponentsError::Unpinned(self.path))?;
        let module = format!("{}@{version}", self.path);
        (build_dir.say)(format_args!("downloading {module} (once) ..."));
        let mut command = build_dir.command(go);
        command.args(["mod", "download", "-json", &module]);
        let output = run(command)?;
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let text = |field: &str| answer.get(field).and_then(Value::as_str);
        match text("Dir").filter(|_| output.status.success()) {
            Some(directory) => Ok(directory.into()),
            None => Err(failure(module, &output, text("Error").unwrap_or_default())),
        }
    }
}

/// The cause is in the response, on standard error, or both.
fn failure(module: String, output: &Output, error: &str) -> ComponentsError {
    let said = [output.stderr.as_slice(), error.as_bytes()].join(&b'\n');
    ComponentsError::Download {
        module,
        status: output.status,
        output: last_lines(said.trim_ascii()),
    }
}

fn copy(source: &Path, target: &Path) -> Result<(), ComponentsError> {
    attempt("create", target, |path| fs::create_dir_all(path))?;
    for entry in attempt("read", source, |path| fs::read_dir(path))? {
        let path = attempt("read", source, |_| entry)?.path();
        if let Some(name) = path.file_name().filter(|_| path.is_file()) {
            // Go's files are read-only, which would be copied along with them
            let content = attempt("read", &path, |path| fs::read(path))?;
            attempt("write", &target.join(name), |path| fs::write(path, content))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::build_dir::tests::build_dir_with_go;
    use super::*;

    const MODULE: GoModule = GoModule {
        path: "example.test/a",
        folder: "config",
        go_mod: "module x\n\nrequire example.test/a v1.2.3\n",
        go_sum: "the sums",
    };

    #[test]
    fn module_files_are_downloaded_once() {
        let (folder, build_dir) = build_dir_with_go(
            "here=$(dirname \"$0\"); echo \"$*\" >>\"$here/calls\"; cp go.sum \"$here/sum\"\n\
             mkdir -p \"$here/a/config/deeper\"; echo one >\"$here/a/config/one.yaml\"; chmod a-w \"$here/a/config/one.yaml\"\n\
             echo \"{\\\"Dir\\\": \\\"$here/a\\\"}\"",
        );
        for _ in 0..2 {
            let files = MODULE.files_in(&build_dir).unwrap();
            let text = fs::read_to_string(files.join("one.yaml")).unwrap();
            assert_eq!(text, "one\n");
            assert_eq!(fs::read_dir(files).unwrap().count(), 1);
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("calls"), "mod download -json example.test/a@v1.2.3\n");
        assert_eq!(read("sum"), "the sums");
    }

    #[test]
    fn failed_download_reports_cause_and_leaves_nothing() {
        for script in [
            "echo 'checksum mismatch' >&2; exit 1",
            "echo '{\"Error\": \"checksum mismatch\"}'; exit 1",
        ] {
            let (_folder, build_dir) = build_dir_with_go(script);
            let error = MODULE.files_in(&build_dir).unwrap_err().to_string();
            assert_eq!(
                error,
                "failed to download example.test/a@v1.2.3 (exit status: 1); the end of its \
                 output:\n  checksum mismatch\n"
            );
            assert!(!build_dir.directory.join("files").exists());
        }
    }

    #[test]
    fn unpinned_module_is_an_error() {
        let (_folder, build_dir) = build_dir_with_go("exit 1");
        let module = GoModule {
            go_mod: "module x\n",
            ..MODULE
        };
        let error = module.files_in(&build_dir).unwrap_err();
        assert!(matches!(error, ComponentsError::Unpinned("example.test/a")));
    }
}
