//! The selected stack of a project directory, in Pulumi's own workspace file.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use pulumi_engine_state::file;

#[derive(Default, Serialize, Deserialize)]
struct Settings {
    /// Used by old versions, before there was one per backend.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stack: Option<String>,
    /// Selected stack per backend.
    #[serde(default)]
    stacks: BTreeMap<String, String>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

/// The selected stack of one project directory, in Pulumi's own file.
pub(crate) struct Selected {
    path: PathBuf,
    settings: Settings,
}

impl Selected {
    /// Reads the file of a project.
    pub(crate) fn load(home: &Path, project: &str, project_file: &Path) -> io::Result<Self> {
        let path = project_file.to_string_lossy();
        let hash = hex::encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, path.as_bytes()));
        let path = home
            .join("workspaces")
            .join(format!("{project}-{hash}-workspace.json"));
        let settings = match file::read(&path)? {
            Some(content) => serde_json::from_slice(&content).unwrap_or_default(),
            None => Settings::default(),
        };
        Ok(Self { path, settings })
    }

    /// The stack selected in a backend, with organization and project.
    #[must_use]
    pub(crate) fn stack(&self, backend: &str) -> Option<&str> {
        self.settings
            .stacks
            .get(backend)
            .or(self.settings.stack.as_ref())
            .map(String::as_str)
    }

    /// Selects a stack, or none.
    pub(crate) fn select(&mut self, backend: &str, stack: Option<String>) -> io::Result<()> {
        self.settings.stack = None;
        match stack {
            Some(stack) => _ = self.settings.stacks.insert(backend.to_owned(), stack),
            None => _ = self.settings.stacks.remove(backend),
        }
        let content = serde_json::to_vec_pretty(&self.settings).map_err(io::Error::from)?;
        file::write_whole(&self.path, &content)
    }
}

/// Pulumi's own directory.
#[must_use]
pub(crate) fn home() -> PathBuf {
    std::env::var_os("PULUMI_HOME").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".pulumi"),
        PathBuf::from,
    )
}
