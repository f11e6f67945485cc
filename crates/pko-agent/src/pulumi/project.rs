//! The project file, `Pulumi.yaml`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use pko_proto::agent::ProjectInfo;
use serde::Deserialize;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProjectError {
    #[error("unable to find project settings in workspace")]
    Missing,
    #[error("found project settings, but failed to load")]
    Unreadable(#[source] io::Error),
    #[error("found project settings, but failed to load: {0}")]
    Malformed(String),
}

/// The fields that the agent needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Project {
    pub(crate) name: String,
    #[serde(default)]
    runtime: Runtime,
    /// The folder of the stacks' configuration files, by default the project file's.
    #[serde(default)]
    stack_config_dir: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Runtime {
    Name(String),
    WithOptions { name: String },
}

impl Default for Runtime {
    fn default() -> Self {
        Self::Name(String::new())
    }
}

impl Project {
    pub(crate) fn load(folder: &Path) -> Result<Self, ProjectError> {
        let names = ["Pulumi.yaml", "Pulumi.yml", "Pulumi.json"];
        let file = names
            .iter()
            .map(|name| folder.join(name))
            .find(|file| file.exists());
        let text = fs::read_to_string(file.ok_or(ProjectError::Missing)?);
        let text = text.map_err(ProjectError::Unreadable)?;
        let text = text.trim_start_matches('\u{feff}');
        serde_saphyr::from_str(text).map_err(|error| ProjectError::Malformed(error.to_string()))
    }

    pub(crate) fn info(&self) -> ProjectInfo {
        let (Runtime::Name(runtime) | Runtime::WithOptions { name: runtime }) = &self.runtime;
        ProjectInfo {
            name: self.name.clone(),
            runtime: runtime.clone(),
        }
    }

    pub(crate) fn stack_file(&self, folder: &Path, stack: &str) -> PathBuf {
        let short = stack.rsplit('/').next().unwrap_or(stack);
        let inner = self.stack_config_dir.as_deref().unwrap_or(Path::new(""));
        folder.join(inner).join(format!("Pulumi.{short}.yaml"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(name: &str, text: &str) -> Result<Project, ProjectError> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), text).unwrap();
        Project::load(folder.path())
    }

    #[test]
    fn project_file_forms_are_read() {
        let table = [
            (
                "Pulumi.yaml",
                "name: demo\nruntime: yaml\nresources: {}\n",
                "yaml",
            ),
            (
                "Pulumi.yml",
                "\u{feff}name: demo\nruntime:\n  name: go\n  options: {a: b}\n",
                "go",
            ),
            ("Pulumi.json", r#"{"name": "demo"}"#, ""),
        ];
        for (file, text, runtime) in table {
            let info = load(file, text).unwrap().info();
            assert_eq!((&*info.name, &*info.runtime), ("demo", runtime));
        }
    }

    #[test]
    fn project_file_errors_are_upstreams() {
        let empty = load("other", "").unwrap_err().to_string();
        assert_eq!(empty, "unable to find project settings in workspace");
        let bad = load("Pulumi.yaml", "name: [").unwrap_err().to_string();
        assert!(bad.starts_with("found project settings, but failed to load: "));
    }

    #[test]
    fn stack_file_uses_short_stack_name() {
        let project = load("Pulumi.yaml", "name: demo\nstackConfigDir: config\n").unwrap();
        let file = project.stack_file(Path::new("/w"), "org/demo/dev");
        assert_eq!(file, Path::new("/w/config/Pulumi.dev.yaml"));
    }
}
