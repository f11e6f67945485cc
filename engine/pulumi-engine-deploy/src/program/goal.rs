//! What a program wants of the engine: resources and calls of functions. Pure.

use std::collections::{BTreeMap, BTreeSet};

use pulumi_engine_model::{
    property::{Properties, Property},
    urn::Urn,
};

/// A resource as the program wants it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Goal {
    /// Name within the URN.
    pub name: String,
    /// Type token.
    pub kind: String,
    /// Inputs; of a resource that is only read, what helps to find it.
    pub inputs: Properties,
    /// Id of a resource outside of the stack, which is read and not managed (`get`).
    pub read: Option<Property>,
    /// Parent; the stack if none.
    pub parent: Option<Urn>,
    /// All resources it needs.
    pub dependencies: BTreeSet<Urn>,
    /// Which input needs which resources.
    pub property_dependencies: BTreeMap<String, BTreeSet<Urn>>,
    /// Former names.
    pub aliases: Vec<Alias>,
    /// Resource with which it goes.
    pub deleted_with: Option<Urn>,
    /// Whether it must not be deleted; none leaves that to its parent.
    pub protect: Option<bool>,
    /// Whether deleting only forgets it; none leaves that to its parent.
    pub retain_on_delete: Option<bool>,
    /// Inputs whose changes do not count.
    pub ignore_changes: Vec<String>,
    /// Inputs whose changes replace it.
    pub replace_on_changes: Vec<String>,
    /// Outputs to keep secret.
    pub additional_secret_outputs: Vec<String>,
    /// Resources whose replacement replaces it too.
    pub replace_with: Vec<Urn>,
    /// Whether a replacement deletes first; none leaves that to the type.
    pub delete_before_replace: Option<bool>,
    /// Seconds by the name of an operation.
    pub custom_timeouts: Vec<(String, f64)>,
    /// Inputs whose values are not shown when they change.
    pub hide_diffs: Vec<String>,
    /// Id of an existing resource to take over.
    pub import: Option<String>,
    /// Its provider; the default one of its package if none.
    pub provider: Option<Urn>,
    /// Providers of its children, which only components have.
    pub providers: Vec<Urn>,
    /// Version of the provider's plugin.
    pub version: Option<String>,
    /// Where the provider's plugin comes from.
    pub plugin_download_url: Option<String>,
    /// A value whose change replaces it.
    pub replacement_trigger: Option<Property>,
    /// Environment variables of a provider's plugin: which of its own becomes which.
    pub env_var_mappings: BTreeMap<String, String>,
    /// Why it cannot be: what Pulumi's engine finds and not its language host, so that the provider is there by then.
    pub fault: Option<String>,
    /// Which part of the program it is: the state keeps the order of parts.
    pub part: usize,
}

/// Why there is no resource, or no result of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The program is wrong.
    Message(String),
    /// It failed, and the user was told; or the run is to stop.
    Reported,
}

/// A former name of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alias {
    /// The whole URN.
    Urn(Urn),
    /// What was different.
    Parts {
        name: Option<String>,
        kind: Option<String>,
        stack: Option<String>,
        project: Option<String>,
        /// `Some(None)` is a resource without a parent
        parent: Option<Option<Urn>>,
    },
}

/// What a registered resource gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered {
    pub urn: Urn,
    /// Its id; none if a preview cannot know it.
    pub id: Option<String>,
    pub outputs: Properties,
    /// Whether outputs that are not there may come when it is made: a preview does not know them.
    pub partial: bool,
}

/// A call of a function of a provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Invocation {
    /// The function's token.
    pub token: String,
    /// Its arguments, all known.
    pub arguments: Properties,
    /// The provider to ask; the default one of the package if none.
    pub provider: Option<Urn>,
    /// Resource whose provider is asked if none is given.
    pub parent: Option<Urn>,
    /// Version of the provider's plugin.
    pub version: Option<String>,
    /// Where the provider's plugin comes from.
    pub plugin_download_url: Option<String>,
}
