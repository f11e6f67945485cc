//! What a program requests: resources and calls of provider functions.

use std::collections::{BTreeMap, BTreeSet};

use pulumi_engine_model::{
    property::{Properties, Property},
    urn::Urn,
};

/// A resource as the program declares it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Goal {
    /// Name within the URN.
    pub name: String,
    /// Type token.
    pub kind: String,
    /// Inputs; for an external resource, properties that help to find it.
    pub inputs: Properties,
    /// Id of an external resource (`get`).
    pub read: Option<Property>,
    /// Parent; the stack if none.
    pub parent: Option<Urn>,
    pub dependencies: BTreeSet<Urn>,
    /// Dependencies by input.
    pub property_dependencies: BTreeMap<String, BTreeSet<Urn>>,
    pub aliases: Vec<Alias>,
    /// The resource whose deletion deletes it too.
    pub deleted_with: Option<Urn>,
    /// Inherited from the parent if none.
    pub protect: Option<bool>,
    /// Inherited from the parent if none.
    pub retain_on_delete: Option<bool>,
    /// Inputs whose changes are ignored.
    pub ignore_changes: Vec<String>,
    /// Inputs whose changes replace it.
    pub replace_on_changes: Vec<String>,
    pub additional_secret_outputs: Vec<String>,
    /// Resources whose replacement replaces it too.
    pub replace_with: Vec<Urn>,
    /// The type's default if none.
    pub delete_before_replace: Option<bool>,
    /// Seconds by operation.
    pub custom_timeouts: Vec<(String, f64)>,
    /// Inputs whose changes are not shown.
    pub hide_diffs: Vec<String>,
    /// Id of an existing resource to import.
    pub import: Option<String>,
    /// Its provider; the default one of its package if none.
    pub provider: Option<Urn>,
    /// Providers of its children, which only components have.
    pub providers: Vec<Urn>,
    /// Version of the provider's plugin.
    pub version: Option<String>,
    /// Download URL of the provider's plugin.
    pub plugin_download_url: Option<String>,
    /// A value whose change replaces it.
    pub replacement_trigger: Option<Property>,
    /// Environment variables of a provider: source name to target name.
    pub env_var_mappings: BTreeMap<String, String>,
    /// An error that Pulumi's engine reports instead of its language host: after the provider is
    /// registered.
    pub fault: Option<String>,
    /// Its part of the program. States keep this order.
    pub part: usize,
}

/// A resource or function call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegistrationError {
    /// An error of the program.
    Message(String),
    /// A failure that was reported, or a canceled run.
    Reported,
}

/// A former name of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Alias {
    /// The whole URN.
    Urn(Urn),
    /// The parts that differed.
    Parts {
        name: Option<String>,
        kind: Option<String>,
        stack: Option<String>,
        project: Option<String>,
        /// `Some(None)` is a resource without a parent
        parent: Option<Option<Urn>>,
    },
}

/// The result of a registration.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered {
    pub urn: Urn,
    /// Its id; none if a preview cannot know it.
    pub id: Option<String>,
    pub outputs: Properties,
    /// Whether missing outputs are unknown, as in a preview.
    pub partial: bool,
}

/// A call of a function of a provider.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Invocation {
    /// The function's token.
    pub token: String,
    /// Its arguments, all known.
    pub arguments: Properties,
    /// Its provider; the default one of the package if none.
    pub provider: Option<Urn>,
    /// The resource whose provider is used if none is given.
    pub parent: Option<Urn>,
    /// Version of the provider's plugin.
    pub version: Option<String>,
    /// Download URL of the provider's plugin.
    pub plugin_download_url: Option<String>,
}
