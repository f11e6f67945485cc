//! Sets a stack's configuration exactly, and only if it differs.

use std::{collections::HashSet, fs, path::Path};

use pko_proto::agent::ConfigItem;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{
    CliSession, WorkspaceError, WorkspaceResult,
    config_plan::{self, ConfigCommand, ConfigSources, ResolvedConfig},
};
use crate::pulumi::{Invocation, argv};

impl CliSession {
    /// Sets the configuration to the source's plus these items, and adds the environments.
    pub(crate) async fn configure(
        &mut self,
        stack: &str,
        items: &[ConfigItem],
        environments: &[String],
    ) -> WorkspaceResult<()> {
        let resolved = self.resolve(items)?;
        let desired = fingerprint(&resolved, environments);
        if self.is_configured(stack, &desired)? {
            return Ok(());
        }
        let change = self.begin_config_change(stack)?;
        change.reset().map_err(WorkspaceError::ConfigFile)?;
        for command in config_plan::plan(&resolved) {
            self.run_config_command(stack, command).await?;
        }
        let source = change.source().unwrap_or_default();
        self.add_environment_names(stack, &missing_environments(source, environments))
            .await?;
        change.finish().map_err(WorkspaceError::ConfigFile)?;
        let file = self
            .config_file(stack)?
            .fingerprint()
            .map_err(WorkspaceError::ConfigFile)?;
        self.state
            .configured
            .insert(stack.to_owned(), (desired, file));
        Ok(())
    }

    /// Adds environments that the stack does not have.
    pub(crate) async fn add_environments(
        &mut self,
        stack: &str,
        environments: &[String],
    ) -> WorkspaceResult<()> {
        let change = self.begin_config_change(stack)?;
        let file = self
            .workspace
            .project()?
            .stack_file(&self.workspace.cli.folder, stack);
        let present = fs::read_to_string(file).unwrap_or_default();
        self.add_environment_names(stack, &missing_environments(&present, environments))
            .await?;
        self.state.configured.remove(stack);
        change.finish().map_err(WorkspaceError::ConfigFile)
    }

    fn resolve(&self, items: &[ConfigItem]) -> WorkspaceResult<Vec<ResolvedConfig>> {
        let sources = ConfigSources {
            variable: &|name| std::env::var(name).ok(),
            file: &|path: &Path| fs::read_to_string(path).ok(),
        };
        let project = self.workspace.project()?;
        let resolved = config_plan::resolve(items, &project.name, &sources)?;
        for item in resolved.iter().filter(|item| item.secret) {
            self.workspace.cli.mask.add(item.text());
        }
        Ok(resolved)
    }

    fn is_configured(&self, stack: &str, desired: &str) -> WorkspaceResult<bool> {
        let Some((set, file)) = self.state.configured.get(stack) else {
            return Ok(false);
        };
        let present = self
            .config_file(stack)?
            .fingerprint()
            .map_err(WorkspaceError::ConfigFile)?;
        Ok(set == desired && *file == present)
    }

    async fn run_config_command(&self, stack: &str, command: ConfigCommand) -> WorkspaceResult<()> {
        let (what, invocation) = match command {
            ConfigCommand::Paths(pairs) => (
                "unable to set config",
                Invocation::new(argv::config_set_all_paths(stack, &pairs)),
            ),
            ConfigCommand::Document(document) => (
                "unable to set config from JSON",
                Invocation::new(argv::config_set_all_json(stack, &document)),
            ),
            ConfigCommand::One {
                key,
                path,
                secret,
                value,
            } => (
                "unable to set config",
                Invocation {
                    input: Some(value),
                    ..Invocation::new(argv::config_set(stack, &key, path, secret))
                },
            ),
        };
        self.call(what, invocation).await?;
        Ok(())
    }

    async fn add_environment_names(
        &self,
        stack: &str,
        environments: &[String],
    ) -> WorkspaceResult<()> {
        if environments.is_empty() {
            return Ok(());
        }
        if !self.workspace.version().await?.has_environments() {
            return Err(WorkspaceError::NoEnvironments);
        }
        let invocation = Invocation::new(argv::config_add_environments(stack, environments));
        self.call("unable to add environments", invocation).await?;
        Ok(())
    }
}

/// A hash, because the values may be secret.
fn fingerprint(items: &[ResolvedConfig], environments: &[String]) -> String {
    let mut hash = Sha256::new();
    for item in items {
        hash.update(item.fingerprint());
        hash.update([0]);
    }
    hash.update(format!("{environments:?}"));
    hex::encode(hash.finalize())
}

#[derive(Deserialize)]
struct StackFile {
    environment: Option<Environment>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Environment {
    Names(Vec<String>),
    Other(serde::de::IgnoredAny),
}

/// The environments that are not in a stack's configuration file, without duplicates.
fn missing_environments(file: &str, environments: &[String]) -> Vec<String> {
    let parsed: Option<StackFile> = serde_saphyr::from_str(file).ok();
    let mut present: HashSet<String> = match parsed.and_then(|file| file.environment) {
        Some(Environment::Names(names)) => names.into_iter().collect(),
        Some(Environment::Other(_)) | None => HashSet::new(),
    };
    let new = environments
        .iter()
        .filter(|name| present.insert((*name).clone()));
    new.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_added_once() {
        let names = |names: &[&str]| -> Vec<String> { names.iter().map(|n| (*n).into()).collect() };
        let file = "environment:\n- org/one\nconfig:\n  a:b: c\n";
        let names_to_add = names(&["org/one", "org/two", "org/two"]);
        assert_eq!(
            missing_environments(file, &names_to_add),
            names(&["org/two"])
        );
        assert_eq!(
            missing_environments("", &names_to_add),
            names(&["org/one", "org/two"])
        );
        assert_eq!(
            missing_environments("environment:\n  values: {}\n", &names_to_add).len(),
            2
        );
        assert_eq!(missing_environments(": not yaml [", &names_to_add).len(), 2);
    }
}
