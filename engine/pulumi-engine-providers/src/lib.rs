//! Resource providers. The trait follows Pulumi's provider protocol, so that plugins could
//! implement it too.
//!
//! Calls are synchronous and come from several threads at once, one for each resource in progress.

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
    /// The schema of a resource type. The error for an unknown type tells the user what to do
    /// instead.
    fn resource_type(&self, token: &str) -> Result<ResourceType, ProviderError>;

    /// Validates and completes inputs: defaults, auto-naming.
    fn check(&self, call: &Call<'_>, request: &CheckRequest<'_>) -> Result<Checked, ProviderError>;

    /// The diff of the provider's own configuration.
    fn diff_config(&self, old: &Properties, new: &Properties) -> Difference {
        diff_top_level(old, new)
    }

    /// The diff of the inputs of an existing resource.
    fn diff(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Difference, ProviderError>;

    /// Creates a resource. In a preview, only returns the outputs as far as they are known.
    fn create(&self, call: &Call<'_>, inputs: &Properties) -> Result<Created, ProviderError>;

    /// Reads a resource; none if it does not exist.
    fn read(
        &self,
        call: &Call<'_>,
        request: &ReadRequest<'_>,
    ) -> Result<Option<Observed>, ProviderError>;

    /// Updates a resource and returns its outputs. In a preview it changes nothing.
    fn update(
        &self,
        call: &Call<'_>,
        request: &ChangeRequest<'_>,
    ) -> Result<Properties, ProviderError>;

    /// Deletes a resource. A missing one is no error.
    fn delete(&self, call: &Call<'_>, request: &ReadRequest<'_>) -> Result<(), ProviderError>;

    /// Calls a function.
    fn invoke(
        &self,
        call: &Call<'_>,
        token: &str,
        arguments: &Properties,
    ) -> Result<Properties, ProviderError>;
}

/// The environment variables of one provider, renamed by `envVarMappings`.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Source names by target names.
    sources: BTreeMap<String, String>,
}

impl Environment {
    /// Maps variables: `(source name, target name)`.
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

/// The context of a call.
pub struct Call<'a> {
    pub urn: &'a Urn,
    pub preview: bool,
    /// The limit of `customTimeouts`.
    pub timeout: Option<Duration>,
    /// Whether the run is canceled. Long waits must check it.
    pub canceled: &'a (dyn Fn() -> bool + Sync),
    /// Reports what the call waits for.
    pub status: &'a (dyn Fn(&str) + Sync),
}

#[derive(Debug, Clone, Copy)]
pub struct CheckRequest<'a> {
    /// The inputs of the existing resource.
    pub old: Option<&'a Properties>,
    /// The inputs of the program.
    pub inputs: &'a Properties,
    /// The seed of everything random about a resource. It is the same for a resource within a run.
    pub random_seed: &'a [u8],
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Checked {
    /// The completed inputs.
    pub inputs: Properties,
    pub failures: Vec<CheckFailure>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFailure {
    /// Empty for the resource as a whole.
    pub property: String,
    /// What is wrong, and what to do.
    pub reason: String,
}

/// An existing resource and its new inputs.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRequest<'a> {
    pub id: &'a str,
    pub old_inputs: &'a Properties,
    pub old_outputs: &'a Properties,
    /// The new inputs, checked.
    pub inputs: &'a Properties,
    /// Paths of ignored changes. The engine has restored the old values already.
    pub ignore_changes: &'a [String],
}

/// The result of a diff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Changes by path, such as `spec.replicas`.
    pub changes: BTreeMap<String, ChangeKind>,
    /// Whether the old resource must be deleted before the new one is created.
    pub delete_before_replace: bool,
}

impl Difference {
    /// The top-level properties that differ.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.roots(|_| true)
    }

    /// The top-level properties that require a replacement.
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

/// A diff of top-level properties, without replacements.
#[must_use]
pub fn diff_top_level(old: &Properties, new: &Properties) -> Difference {
    let keys = old.keys().chain(new.keys());
    let changed = keys.filter(|key| old.get(*key) != new.get(*key));
    Difference {
        changes: changed
            .map(|key| (key.clone(), ChangeKind::Update))
            .collect(),
        delete_before_replace: false,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    Update,
    Replace,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Created {
    /// Empty if a preview does not know it.
    pub id: String,
    pub outputs: Properties,
}

/// An existing resource.
#[derive(Debug, Clone, Copy)]
pub struct ReadRequest<'a> {
    pub id: &'a str,
    /// Its inputs; none if it is read for the first time (`get`, import).
    pub inputs: Option<&'a Properties>,
    /// Its last outputs; for the first time, properties that help to find it.
    pub outputs: &'a Properties,
}

/// The live resource.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    pub id: String,
    /// The inputs that would create it.
    pub inputs: Properties,
    pub outputs: Properties,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ProviderError {
    #[error("{0}")]
    Failed(String),
    /// It was created or updated, but is not ready. The state keeps it with the reasons, and the
    /// next run updates it again.
    #[error("{}", reasons.join("; "))]
    Incomplete {
        id: String,
        /// Its outputs as far as known.
        outputs: Properties,
        reasons: Vec<String>,
    },
}
