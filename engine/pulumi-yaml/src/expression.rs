//! Expressions, parsed from YAML nodes.

use serde_json::Number;

use crate::{
    Diagnostic, Invoke,
    access::{self, Access, TextPart},
    function::{self, Function, NotBuiltin},
    invoke,
    syntax::{Node, NodeValue, Position},
};

/// An expression and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    /// What it is.
    pub kind: ExpressionKind,
    /// Its line.
    pub line: Position,
}

/// The kinds of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum ExpressionKind {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Expression>),
    Object(Vec<(Expression, Expression)>),
    /// A string with references in it
    Interpolation(Vec<TextPart>),
    /// A reference alone: has the type of its target
    Reference(Access),
    /// A built-in function and its argument
    Call(Function, Box<Expression>),
    /// A function of a provider
    Invoke(Box<Invoke>),
}

impl Expression {
    /// A string literal.
    #[must_use]
    pub fn text(text: &str, line: Position) -> Self {
        Self {
            kind: ExpressionKind::String(text.to_owned()),
            line,
        }
    }

    /// A reference to a whole variable, config value or resource.
    #[must_use]
    pub fn reference(name: &str, line: Position) -> Self {
        let access = Access {
            root: name.to_owned(),
            steps: Vec::new(),
        };
        Self {
            kind: ExpressionKind::Reference(access),
            line,
        }
    }

    /// Parses a node, and adds errors and warnings to `diagnostics`.
    pub fn read(node: &Node, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let kind = match &node.value {
            NodeValue::Null => ExpressionKind::Null,
            NodeValue::Bool(value) => ExpressionKind::Bool(*value),
            NodeValue::Number(value) => ExpressionKind::Number(crate::text::as_float(value)),
            NodeValue::String(text) => read_text(text, node.line, diagnostics),
            NodeValue::List(values) => ExpressionKind::List(
                values
                    .iter()
                    .map(|value| Self::read(value, diagnostics))
                    .collect(),
            ),
            NodeValue::Object(entries) => read_object(entries, diagnostics),
        };
        Self {
            kind,
            line: node.line,
        }
    }

    /// Calls `visit` for each reference in it.
    pub fn each_access<'a>(&'a self, visit: &mut dyn FnMut(&'a Access, Position)) {
        match &self.kind {
            ExpressionKind::List(values) => {
                for value in values {
                    value.each_access(visit);
                }
            }
            ExpressionKind::Object(entries) => {
                for (key, value) in entries {
                    key.each_access(visit);
                    value.each_access(visit);
                }
            }
            ExpressionKind::Interpolation(parts) => {
                for part in parts {
                    if let TextPart::Access(access) = part {
                        visit(access, self.line);
                    }
                }
            }
            ExpressionKind::Reference(access) => visit(access, self.line),
            ExpressionKind::Call(_, argument) => argument.each_access(visit),
            ExpressionKind::Invoke(invoke) => {
                for expression in invoke.expressions() {
                    expression.each_access(visit);
                }
            }
            _ => {}
        }
    }
}

fn read_text(text: &str, line: Position, diagnostics: &mut Vec<Diagnostic>) -> ExpressionKind {
    let parts = match access::parse(text) {
        Ok(parts) => parts,
        Err(message) => {
            diagnostics.push(Diagnostic::error(line, message));
            return ExpressionKind::Null;
        }
    };
    match <[TextPart; 1]>::try_from(parts) {
        Ok([TextPart::Text(text)]) => ExpressionKind::String(text),
        Ok([TextPart::Access(access)]) => ExpressionKind::Reference(access),
        Err(parts) if parts.is_empty() => ExpressionKind::String(String::new()),
        Err(parts) => ExpressionKind::Interpolation(parts),
    }
}

fn read_object(entries: &[(Node, Node)], diagnostics: &mut Vec<Diagnostic>) -> ExpressionKind {
    if let [(key, value)] = entries
        && let Some(call) = read_call(key, value, diagnostics)
    {
        return call;
    }
    for (key, _) in entries {
        let Some(name) = key.as_str() else {
            let message = format!(
                "mapping keys must be strings: write {:?}",
                key.scalar_text()
            );
            diagnostics.push(Diagnostic::error(key.line, message));
            continue;
        };
        if entries.len() > 1 && function::lookup(name).is_ok_and(Function::makes_asset) {
            let message = format!("{name} must have its own object");
            diagnostics.push(Diagnostic::error(key.line, message));
        }
    }
    ExpressionKind::Object(
        entries
            .iter()
            .map(|(key, value)| {
                (
                    Expression::read(key, diagnostics),
                    Expression::read(value, diagnostics),
                )
            })
            .collect(),
    )
}

/// Parses a map with one key as a call, if the key names a function.
fn read_call(
    key: &Node,
    value: &Node,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ExpressionKind> {
    let name = key.as_str()?;
    if !function::has_prefix(name) {
        return None;
    }
    match function::lookup(name) {
        Ok(function) => {
            if name != function.name() {
                let message = format!(
                    "'{name}' looks like a miscapitalization of '{}'",
                    function.name()
                );
                diagnostics.push(Diagnostic::warning(key.line, message));
            }
            if function == Function::StackReference {
                let message = "'fn::stackReference' is deprecated; please use 'pulumi:pulumi:StackReference' instead";
                diagnostics.push(Diagnostic::warning(key.line, message));
            }
            let argument = Expression::read(value, diagnostics);
            if let Err(message) = function::check_shape(function, &argument) {
                diagnostics.push(Diagnostic::error(argument.line, message));
            }
            Some(ExpressionKind::Call(function, Box::new(argument)))
        }
        Err(NotBuiltin::Invoke | NotBuiltin::ProviderFunction) => Some(
            invoke::read(key, value, diagnostics).map_or(ExpressionKind::Null, |invoke| {
                ExpressionKind::Invoke(Box::new(invoke))
            }),
        ),
        Err(NotBuiltin::Unknown) => {
            diagnostics.push(Diagnostic::warning(
                key.line,
                format!(
                    "'fn::' is a reserved prefix; {name:?} is no function and stays a plain key{}",
                    crate::text::did_you_mean(name, function::names())
                ),
            ));
            None
        }
    }
}
