//! YAML programs: text to tree ([`parse`]), order ([`order`]), checks ([`check`]) and values
//! ([`evaluate`]). Pure: files come through [`files::Files`], the rest through [`evaluate::Host`].

pub mod access;
pub mod archive;
pub mod check;
pub mod configuration;
pub mod evaluate;
pub mod expression;
pub mod files;
pub mod function;
pub mod goal;
pub mod invoke;
mod options;
pub mod order;
pub mod parse;
pub mod types;
pub mod value;
pub mod version_range;

use crate::syntax::Place;
use expression::Expression;

/// Something to tell the user about a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the run goes on.
    pub severity: Severity,
    /// The message.
    pub message: String,
    /// Place in the program that it is about.
    pub line: Option<Place>,
}

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The run goes on.
    Warning,
    /// The run fails.
    Error,
}

impl Diagnostic {
    /// An error at a line.
    #[must_use]
    pub fn error(line: impl Into<Place>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            line: Some(line.into()),
        }
    }

    /// A warning at a line.
    #[must_use]
    pub fn warning(line: impl Into<Place>, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            message: message.into(),
            line: Some(line.into()),
        }
    }

    /// Whether it fails the run.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// A program as written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Program {
    /// Config values that it declares.
    pub config: Vec<configuration::Declaration>,
    /// Versions of Pulumi that it can run with.
    pub required_version: Option<Expression>,
    /// Named values.
    pub variables: Vec<Variable>,
    /// Resources.
    pub resources: Vec<ResourceDeclaration>,
    /// Outputs of the stack.
    pub outputs: Vec<Variable>,
    /// What the user should know before it runs.
    pub warnings: Vec<Diagnostic>,
    /// What is wrong with declarations as a whole; reported once the stack is registered.
    pub errors: Vec<Diagnostic>,
}

/// A name and what it stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Expression,
    /// Line of the name.
    pub line: Place,
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
    /// Whether resources of its package use it, where they name no provider.
    pub default_provider: bool,
    /// Inputs.
    pub properties: Inputs,
    /// Options.
    pub options: ResourceOptions,
    /// What to read, if it is not managed here.
    pub get: Option<Get>,
    /// Line of the key.
    pub line: Place,
}

impl ResourceDeclaration {
    /// Whether it says anything under this name, of those that not every engine may carry out.
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
    /// The program has no `properties` for it: its provider finds out what is missing.
    #[default]
    Absent,
    /// Each by its name.
    Named(Vec<Variable>),
    /// All of them from one expression.
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

/// A resource outside of the stack that is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Get {
    /// Its id.
    pub id: Expression,
    /// What helps to find it.
    pub state: Vec<Variable>,
}

/// The options of a resource.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "named as in Pulumi's own documentation")]
pub struct ResourceOptions {
    pub additional_secret_outputs: Vec<String>,
    pub aliases: Option<Expression>,
    /// How long an operation may take, by its name.
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
