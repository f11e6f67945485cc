//! Selects, creates, lists and removes stacks, with as few calls of the CLI as possible.

use pko_proto::{agent::StackSummary, convert::to_proto_timestamp};
use serde::Deserialize;

use super::{CliSession, WorkspaceError, WorkspaceResult, config_file::ConfigFile, parse_json};
use crate::pulumi::{Invocation, argv};

/// The stack to select, and how to create it if it is missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct StackRequest {
    pub(crate) name: String,
    pub(crate) create: bool,
    pub(crate) secrets_provider: Option<String>,
}

impl CliSession {
    /// Makes a stack the current one, and creates it if it is missing and that is allowed.
    pub(crate) async fn select(&mut self, request: &StackRequest) -> WorkspaceResult<()> {
        let name = &request.name;
        if name.is_empty() {
            return Err(WorkspaceError::InvalidStackName);
        }
        let invocation = Invocation::new(argv::stack_select(name));
        match self.call("failed to select stack", invocation).await {
            Ok(_) => {}
            Err(failure) if failure.is_stack_not_found() => self.create(request).await?,
            Err(failure) => return Err(failure.into()),
        }
        self.remember_provider(request)?;
        self.state.current = Some(name.clone());
        if !self.state.existing.contains(name) {
            self.state.existing.push(name.clone());
        }
        Ok(())
    }

    /// As [`Self::select`], but without a call for a known stack, because all commands name theirs.
    pub(crate) async fn ensure(&mut self, request: &StackRequest) -> WorkspaceResult<()> {
        if self.state.existing.contains(&request.name) {
            return Ok(());
        }
        let before = self.state.current.clone();
        self.select(request).await?;
        // The default stack of upstream's calls does not change.
        self.state.current = before.or(self.state.current.take());
        Ok(())
    }

    /// Stores only a provider with which the stack was selected or created.
    fn remember_provider(&mut self, request: &StackRequest) -> WorkspaceResult<()> {
        let provider = request.secrets_provider.as_deref();
        match provider.filter(|provider| !provider.is_empty()) {
            Some(provider) => {
                let stored = self.state.providers.set(&request.name, provider);
                stored.map_err(WorkspaceError::SecretsProvider)
            }
            None => Ok(()),
        }
    }

    /// `stack init` also selects.
    async fn create(&mut self, request: &StackRequest) -> WorkspaceResult<()> {
        if !request.create {
            return Err(WorkspaceError::StackNotFound);
        }
        let (name, requested) = (&request.name, request.secrets_provider.as_deref());
        let provider = self.state.providers.get(name, requested);
        let invocation = Invocation::new(argv::stack_init(name, provider.as_deref()));
        let change = self.begin_config_change(name)?;
        self.call("failed to create stack", invocation).await?;
        change.finish().map_err(WorkspaceError::ConfigFile)
    }

    /// The default stack of upstream's calls, which may have been selected by a previous agent.
    pub(crate) async fn current(&mut self) -> WorkspaceResult<String> {
        if let Some(current) = &self.state.current {
            return Ok(current.clone());
        }
        let listed = self
            .list("could not determine selected stack: could not list stacks")
            .await?;
        let current = listed.into_iter().find(|stack| stack.current);
        let name = current.ok_or(WorkspaceError::NoStackSelected)?.name;
        self.state.current = Some(name.clone());
        Ok(name)
    }

    /// The current stack as the backend lists it.
    pub(crate) async fn info(&mut self) -> WorkspaceResult<StackSummary> {
        let current = self.current().await?;
        let listed = self
            .list("failed to fetch stack info: could not list stacks")
            .await?;
        // The list has names without organization and project.
        let short = current.rsplit('/').next().unwrap_or(&current);
        let is_current = |stack: &ListedStack| stack.name == current || stack.name == short;
        let current = listed.into_iter().find(is_current);
        Ok(current.ok_or(WorkspaceError::NoStackSelected)?.summary())
    }

    /// Removes a stack without resources.
    pub(crate) async fn remove(&mut self, name: &str) -> WorkspaceResult<()> {
        let invocation = Invocation::new(argv::stack_remove(name));
        let change = self.begin_config_change(name)?;
        self.call("failed to remove stack", invocation).await?;
        self.forget(name);
        change.discard().map_err(WorkspaceError::ConfigFile)
    }

    /// Removes all locks of a stack, regardless of their holders.
    pub(crate) async fn cancel(&self, name: &str) -> WorkspaceResult<()> {
        let invocation = Invocation::new(argv::cancel(name));
        self.call("failed to cancel the update", invocation).await?;
        Ok(())
    }

    /// Drops cached state of a stack that may have been deleted.
    pub(crate) fn forget(&mut self, name: &str) {
        self.state.existing.retain(|stack| stack != name);
        self.state.configured.remove(name);
        if self.state.current.as_deref() == Some(name) {
            self.state.current = None;
        }
    }

    async fn list(&self, what: &'static str) -> WorkspaceResult<Vec<ListedStack>> {
        let invocation = Invocation {
            exact: true,
            ..Invocation::new(argv::stack_list())
        };
        let printed = self.call(what, invocation).await?;
        parse_json(what, &printed)
    }

    pub(super) fn config_file(&self, stack: &str) -> WorkspaceResult<ConfigFile> {
        let project = self.workspace.project()?;
        let file = project.stack_file(&self.workspace.cli.folder, stack);
        Ok(ConfigFile::new(file, &self.workspace.notes))
    }

    /// Must precede commands that may write the stack's configuration file.
    pub(super) fn begin_config_change(
        &self,
        stack: &str,
    ) -> WorkspaceResult<super::config_file::ConfigChange> {
        self.config_file(stack)?
            .begin()
            .map_err(WorkspaceError::ConfigFile)
    }
}

/// An entry of `pulumi stack ls`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedStack {
    name: String,
    #[serde(default)]
    current: bool,
    last_update: Option<String>,
    #[serde(default)]
    update_in_progress: bool,
    resource_count: Option<i32>,
    url: Option<String>,
}

impl ListedStack {
    fn summary(self) -> StackSummary {
        let last_update = self.last_update.and_then(|time| time.parse().ok());
        StackSummary {
            name: self.name,
            last_update: last_update.map(to_proto_timestamp),
            update_in_progress: self.update_in_progress,
            resource_count: self.resource_count,
            url: Some(self.url.unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_list_entry_is_parsed() {
        let text = r#"[{"name": "dev", "current": true, "lastUpdate": "2026-11-15T20:15:27.044Z", "resourceCount": 3}]"#;
        let [listed] = parse_json::<Vec<ListedStack>>("x", text)
            .unwrap()
            .try_into()
            .ok()
            .unwrap();
        let summary = listed.summary();
        assert_eq!((&*summary.name, summary.resource_count), ("dev", Some(3)));
        assert_eq!(summary.last_update.unwrap().nanos, 44_000_000);
        assert_eq!(summary.url.as_deref(), Some(""));
    }
}
