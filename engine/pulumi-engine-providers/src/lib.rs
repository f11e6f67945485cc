//! What a provider of resources does. The calls are those of Pulumi's provider protocol, so that built-in providers
//! and, later, plugins fit behind the same trait. No I/O here; providers do it.
//!
//! Calls are synchronous and come from several threads at once, one for each resource that is worked on.

#![expect(missing_docs, reason = "only this workspace links it")]

pub mod builtin;
pub mod kubernetes;
mod random;
pub mod registry;

use std::{collections::BTreeMap, time::Duration};

use pulumi_engine_model::{property::Properties, urn::Urn};
use pulumi_yaml::ResourceType;

/// A provider with its configuration.
pub trait Provider: Send + Sync {
    /// What a program may say of resources of a type; an error says that there is no such type, and what to do instead.
    fn resource_type(&self, token: &str) -> Result<ResourceType, ProviderError>;

    /// Looks at inputs and completes them: defaults, names, what Pulumi calls auto-naming.
    fn check(&self, call: &Call<'_>, request: &CheckRequest<'_>) -> Result<Checked, ProviderError>;

    /// What a change of the provider's own configuration means, for it and for all of its resources.
    fn diff_config(&self, old: &Properties, new: &Properties) -> Difference {
        changed(old, new)
    }

    /// What a change of inputs means for a resource that exists.
    fn diff(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Difference, ProviderError>;

    /// Makes a resource. In a preview it makes none, and says what can be known of its outputs.
    fn create(&self, call: &Call<'_>, inputs: &Properties) -> Result<Created, ProviderError>;

    /// Reads a resource as it is; none if it is gone.
    fn read(
        &self,
        call: &Call<'_>,
        request: &ReadRequest<'_>,
    ) -> Result<Option<Observed>, ProviderError>;

    /// Changes a resource and says its outputs. In a preview it changes nothing.
    fn update(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Properties, ProviderError>;

    /// Deletes a resource; one that is gone already is no error.
    fn delete(&self, call: &Call<'_>, request: &ReadRequest<'_>) -> Result<(), ProviderError>;

    /// Calls a function.
    fn invoke(
        &self,
        call: &Call<'_>,
        token: &str,
        arguments: &Properties,
    ) -> Result<Properties, ProviderError>;
}

/// Environment variables as one provider sees them: some under other names (`envVarMappings`).
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Names of variables by those that the provider asks for.
    sources: BTreeMap<String, String>,
}

impl Environment {
    /// An environment in which each second name stands for the variable of the first, if there is one.
    pub fn new(names: impl IntoIterator<Item = (String, String)>) -> Self {
        let sources = names.into_iter().map(|(from, to)| (to, from)).collect();
        Self { sources }
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        let source = self.sources.get(name);
        let given = source.and_then(|source| std::env::var(source).ok());
        given.or_else(|| std::env::var(name).ok())
    }
}

/// What every call is told.
pub struct Call<'a> {
    /// The resource that it is about.
    pub urn: &'a Urn,
    /// Whether nothing may be changed.
    pub preview: bool,
    /// How long it may take, if the program says so (`customTimeouts`).
    pub timeout: Option<Duration>,
    /// Whether the user wants to stop: whoever waits asks for this now and then.
    pub canceled: &'a (dyn Fn() -> bool + Sync),
    /// Tells the user what is waited for.
    pub status: &'a (dyn Fn(&str) + Sync),
}

/// Inputs to look at.
#[derive(Debug, Clone, Copy)]
pub struct CheckRequest<'a> {
    /// What was checked last time, if the resource exists.
    pub old: Option<&'a Properties>,
    /// What the program says.
    pub inputs: &'a Properties,
    /// Decides everything that is random about a resource, such as the end of its name: the same resource in the same
    /// run gets the same bytes.
    pub random_seed: &'a [u8],
}

/// Inputs that were looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Checked {
    /// The inputs, completed.
    pub inputs: Properties,
    /// What is wrong with them.
    pub failures: Vec<CheckFailure>,
}

/// What is wrong with one input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFailure {
    /// Which one; empty for the resource as a whole.
    pub property: String,
    /// Why, and the way out.
    pub reason: String,
}

/// A resource and what it should become.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRequest<'a> {
    pub id: &'a str,
    /// The inputs that made it what it is.
    pub old_inputs: &'a Properties,
    pub old_outputs: &'a Properties,
    /// The inputs that it should have, checked.
    pub inputs: &'a Properties,
    /// Paths of inputs whose changes don't count. The engine has put the old values in their place already.
    pub ignore_changes: &'a [String],
}

/// What a change means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// What differs, by path, such as `spec.replicas`.
    pub changes: BTreeMap<String, ChangeKind>,
    /// Whether the old one must go before the new one can come.
    pub delete_before_replace: bool,
}

impl Difference {
    /// Top-level properties that differ.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.roots(|_| true)
    }

    /// Top-level properties that make it a replacement.
    #[must_use]
    pub fn replace_keys(&self) -> Vec<String> {
        self.roots(|kind| kind == ChangeKind::Replace)
    }

    fn roots(&self, wanted: impl Fn(ChangeKind) -> bool) -> Vec<String> {
        let mut roots: Vec<_> = self
            .changes
            .iter()
            .filter(|(_, kind)| wanted(**kind))
            .map(|(path, _)| path.split(['.', '[']).next().unwrap_or(path).to_owned())
            .collect();
        roots.dedup();
        roots
    }
}

/// Top-level properties that differ, all of which can be changed.
#[must_use]
pub fn changed(old: &Properties, new: &Properties) -> Difference {
    let keys = old.keys().chain(new.keys());
    let changed = keys.filter(|key| old.get(*key) != new.get(*key));
    Difference {
        changes: changed
            .map(|key| (key.clone(), ChangeKind::Update))
            .collect(),
        delete_before_replace: false,
    }
}

/// What it takes to make a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// The resource can be changed.
    Update,
    /// It must be made anew.
    Replace,
}

/// A resource that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Created {
    /// Its id; empty where a preview can't know it.
    pub id: String,
    pub outputs: Properties,
}

/// A resource that exists.
#[derive(Debug, Clone, Copy)]
pub struct ReadRequest<'a> {
    pub id: &'a str,
    /// The inputs that made it what it is; none if it is read for the first time (`get`, import).
    pub inputs: Option<&'a Properties>,
    /// Its outputs as last seen; for the first time the properties that the program gives to find it.
    pub outputs: &'a Properties,
}

/// A resource as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub id: String,
    /// Inputs that would make it what it is.
    pub inputs: Properties,
    pub outputs: Properties,
}

/// Why a call did not do what was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProviderError {
    /// Nothing was done.
    #[error("{0}")]
    Failed(String),
    /// It was made or changed, and is not well: the state remembers it with the reasons, and the next run goes on from there.
    #[error("{}", reasons.join("; "))]
    Incomplete {
        id: String,
        /// Its outputs as far as they are known.
        outputs: Properties,
        /// What is not well.
        reasons: Vec<String>,
    },
}
