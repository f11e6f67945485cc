//! A program as written: variables, resources and their options, outputs.

use crate::{Diagnostic, config, expression::Expression, syntax::Position};

/// A program as written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Program {
    /// Its config variables.
    pub config: Vec<config::ConfigVariable>,
    /// `pulumi.requiredVersion`.
    pub required_version: Option<Expression>,
    /// Named values.
    pub variables: Vec<Variable>,
    /// Resources.
    pub resources: Vec<ResourceDeclaration>,
    /// Outputs of the stack.
    pub outputs: Vec<Variable>,
    /// Warnings, reported before the program runs.
    pub warnings: Vec<Diagnostic>,
    /// Semantic errors, reported once the stack is registered.
    pub errors: Vec<Diagnostic>,
}

/// A named expression: a variable, an output or an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Expression,
    /// Line of the name.
    pub line: Position,
}

/// A resource as written.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceDeclaration {
    /// Name within the program.
    pub key: String,
    /// Name in the URN.
    pub name: String,
    /// Type token.
    pub kind: String,
    /// Whether it is the default provider of its package.
    pub default_provider: bool,
    /// Inputs.
    pub properties: Inputs,
    /// Options.
    pub options: ResourceOptions,
    /// The resource to read instead of managing one.
    pub get: Option<Get>,
    /// Line of the key.
    pub line: Position,
}

impl ResourceDeclaration {
    /// Whether it sets this field or option. Only those that an engine may not support are known.
    #[must_use]
    pub fn uses(&self, name: &str) -> bool {
        let options = &self.options;
        match name {
            "envVarMappings" => options.env_var_mappings.is_some(),
            "get" => self.get.is_some(),
            "import" => options.import.is_some(),
            "pluginDownloadURL" => options.plugin_download_url.is_some(),
            "provider" => options.provider.is_some(),
            "providers" => options.providers.is_some(),
            "replacementTrigger" => options.replacement_trigger.is_some(),
            "version" => options.version.is_some(),
            _ => false,
        }
    }
}

/// The inputs of a resource.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Inputs {
    /// No `properties`: the provider reports missing ones.
    #[default]
    Absent,
    /// One expression per input.
    Named(Vec<Variable>),
    /// One expression for all inputs.
    Whole(Expression),
}

impl Inputs {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Absent => true,
            Self::Named(properties) => properties.is_empty(),
            Self::Whole(_) => false,
        }
    }

    /// The expressions in them.
    #[must_use]
    pub fn expressions(&self) -> Vec<&Expression> {
        match self {
            Self::Absent => Vec::new(),
            Self::Named(properties) => properties.iter().map(|property| &property.value).collect(),
            Self::Whole(expression) => vec![expression],
        }
    }
}

/// A resource outside of the stack, which is read and not managed.
#[derive(Debug, Clone, PartialEq)]
pub struct Get {
    /// Its id.
    pub id: Expression,
    /// Properties that help to find it.
    pub state: Vec<Variable>,
}

/// The options of a resource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourceOptions {
    pub additional_secret_outputs: Vec<String>,
    pub aliases: Option<Expression>,
    /// Limits by operation.
    pub custom_timeouts: Vec<(String, Expression)>,
    pub delete_before_replace: bool,
    pub deleted_with: Option<Expression>,
    pub depends_on: Option<Expression>,
    pub env_var_mappings: Option<Expression>,
    pub hide_diffs: Vec<String>,
    pub ignore_changes: Vec<String>,
    pub import: Option<String>,
    pub parent: Option<Expression>,
    pub plugin_download_url: Option<String>,
    pub protect: Option<Expression>,
    pub provider: Option<Expression>,
    pub providers: Option<Expression>,
    pub replace_on_changes: Vec<String>,
    pub replace_with: Option<Expression>,
    pub replacement_trigger: Option<Expression>,
    pub retain_on_delete: Option<bool>,
    pub version: Option<String>,
}

impl ResourceOptions {
    /// The expressions in them.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        [
            &self.aliases,
            &self.deleted_with,
            &self.depends_on,
            &self.env_var_mappings,
            &self.parent,
            &self.protect,
            &self.provider,
            &self.providers,
            &self.replace_with,
            &self.replacement_trigger,
        ]
        .into_iter()
        .flatten()
        .chain(self.custom_timeouts.iter().map(|(_, value)| value))
    }
}
