//! The stand-in's stacks, in a file of its folder.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::Path,
};

use jiff::Timestamp;
use pko_testkit::stand_in::STATE;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::outputs::Outputs;
use crate::cli_error::{CliError, CliResult};

/// How many updates a stack's history keeps: tests make thousands.
const HISTORY: usize = 10;

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct StateFile {
    /// By project.
    selected: BTreeMap<String, String>,
    /// By project and name.
    stacks: BTreeMap<String, StackState>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct StackState {
    /// A hash of the passphrase; `None` for other secrets providers.
    pub(super) salt: Option<String>,
    /// True if the stack itself is among the resources.
    pub(super) deployed: bool,
    pub(super) resources: BTreeMap<String, ResourceState>,
    pub(super) outputs: Outputs,
    pub(super) last_update: Timestamp,
    pub(super) updates: u64,
    /// Newest first.
    pub(super) history: Vec<Value>,
}

/// One resource, of the type `pulumi:index:Stash`: its output is its first input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ResourceState {
    pub(super) id: String,
    pub(super) input: Value,
    pub(super) output: Value,
}

/// A stack's name, taken apart.
#[derive(Debug, Clone)]
pub(super) struct StackName {
    given: String,
    project: String,
    pub(super) stack: String,
}

impl StackName {
    /// Parses `stack`, `organization/stack` or `organization/project/stack`.
    pub(super) fn parse(given: &str, project: &str) -> CliResult<Self> {
        let parts: Vec<&str> = given.split('/').collect();
        let (organization, project, stack) = match parts.as_slice() {
            [stack] => ("organization", project, *stack),
            [organization, stack] => (*organization, project, *stack),
            [organization, project, stack] => (*organization, *project, *stack),
            _ => return CliError::result(1, format!("invalid stack name '{given}'")),
        };
        if organization != "organization" && !super::is_cloud() {
            return CliError::result(1, "organization name must be 'organization'");
        }
        Ok(Self {
            given: given.to_owned(),
            project: project.to_owned(),
            stack: stack.to_owned(),
        })
    }

    /// With everything that was left out.
    pub(super) fn full(&self) -> String {
        format!("organization/{}/{}", self.project, self.stack)
    }

    fn key(&self) -> String {
        format!("{}/{}", self.project, self.stack)
    }
}

impl StateFile {
    pub(super) fn read(folder: &Path) -> CliResult<Self> {
        let _lock = lock(folder)?;
        Self::load(folder)
    }

    /// Changes the state under a lock.
    pub(super) fn change<T>(
        folder: &Path,
        change: impl FnOnce(&mut Self) -> CliResult<T>,
    ) -> CliResult<T> {
        let _lock = lock(folder)?;
        let mut state = Self::load(folder)?;
        let answer = change(&mut state)?;
        let new = folder.join("state.new");
        fs::write(&new, serde_json::to_vec(&state)?)?;
        fs::rename(new, folder.join(STATE))?;
        Ok(answer)
    }

    fn load(folder: &Path) -> CliResult<Self> {
        match fs::read(folder.join(STATE)) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(_) => Ok(Self::default()),
        }
    }

    /// The stack, or the error text that scripts match on.
    pub(super) fn stack(&mut self, name: &StackName) -> CliResult<&mut StackState> {
        match self.stacks.get_mut(&name.key()) {
            Some(stack) => Ok(stack),
            None => CliError::result(6, format!("no stack named '{}' found", name.given)),
        }
    }

    pub(super) fn add(&mut self, name: &StackName, stack: StackState) -> CliResult<()> {
        if self.stacks.contains_key(&name.key()) {
            let text = format!("stack '{}' already exists", name.full());
            return CliError::result(1, text);
        }
        self.stacks.insert(name.key(), stack);
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &StackName) {
        self.stacks.remove(&name.key());
        self.selected.remove(&name.project);
    }

    pub(super) fn select(&mut self, name: &StackName) {
        self.selected
            .insert(name.project.clone(), name.stack.clone());
    }

    pub(super) fn selected(&self, project: &str) -> Option<&str> {
        self.selected.get(project).map(String::as_str)
    }

    /// The stacks of a project.
    pub(super) fn of_project(&self, project: &str) -> impl Iterator<Item = (&str, &StackState)> {
        let prefix = format!("{project}/");
        let stacks = self.stacks.iter();
        stacks.filter_map(move |(key, stack)| Some((key.strip_prefix(&prefix)?, stack)))
    }
}

impl StackState {
    /// The stack itself, its provider and its resources.
    pub(super) fn resource_count(&self) -> usize {
        let provider = usize::from(!self.resources.is_empty());
        usize::from(self.deployed) + provider + self.resources.len()
    }

    pub(super) fn remember(&mut self, update: Value) {
        self.updates += 1;
        self.history.insert(0, update);
        self.history.truncate(HISTORY);
    }
}

fn lock(folder: &Path) -> CliResult<File> {
    let file = File::create(folder.join("state.lock"))?;
    file.lock()?;
    Ok(file)
}
