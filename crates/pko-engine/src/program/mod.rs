//! YAML programs: text to tree ([`parse`]), order ([`order`]), checks ([`check`]) and values
//! ([`evaluate`]). Pure: files and other stacks come through [`evaluate::Host`].

pub mod access;
pub mod check;
pub mod evaluate;
pub mod expression;
pub mod function;
pub mod order;
pub mod parse;
pub mod value;

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
    /// Inputs.
    pub properties: Vec<Variable>,
    /// Options.
    pub options: ResourceOptions,
    /// Line of the key.
    pub line: Place,
}

/// The options of a resource that this engine knows.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "named as in Pulumi's own documentation")]
pub struct ResourceOptions {
    pub additional_secret_outputs: Vec<String>,
    pub aliases: Option<Expression>,
    /// Seconds by the name of an operation.
    pub custom_timeouts: Vec<(String, f64)>,
    pub delete_before_replace: bool,
    pub deleted_with: Option<Expression>,
    pub depends_on: Option<Expression>,
    pub hide_diffs: Vec<String>,
    pub ignore_changes: Vec<String>,
    pub parent: Option<Expression>,
    pub protect: Option<Expression>,
    pub replace_on_changes: Vec<String>,
    pub replace_with: Option<Expression>,
    pub retain_on_delete: bool,
}
