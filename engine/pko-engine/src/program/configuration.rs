//! Config values that a program declares, with types and defaults. Pure.

use super::{
    Diagnostic,
    expression::{Expression, ExpressionKind},
    parse::Reader,
    types::Type,
    value::{Output, Value},
};
use crate::{
    syntax::{Node, Place},
    text,
};

const FIELDS: [&str; 7] = [
    "default",
    "description",
    "items",
    "name",
    "secret",
    "type",
    "value",
];

/// A config value as a program declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct Declaration {
    /// Its name in the program.
    pub key: String,
    /// Its name in the config, if that is another.
    pub name: Option<String>,
    /// Its type as written.
    pub kind: Option<String>,
    /// What it is unless the stack says otherwise.
    pub default: Option<Expression>,
    /// Whether the program wants it secret.
    pub secret: Option<bool>,
    /// Line of the key.
    pub line: Place,
}

/// Reads `config` or `configuration`.
pub(super) fn read(reader: &mut Reader, section: &str, node: &Node) -> Vec<Declaration> {
    let entries = reader.entries(section, node);
    entries
        .iter()
        .map(|(key, value)| declaration(reader, key, value))
        .collect()
}

fn declaration(reader: &mut Reader, key: &Node, node: &Node) -> Declaration {
    let mut declaration = Declaration {
        key: key.scalar_text(),
        name: None,
        kind: None,
        default: None,
        secret: None,
        line: key.line,
    };
    // the short form is a value of the project, which the config has already
    let Some(fields) = node.entries() else {
        return declaration;
    };
    for (field, value) in fields {
        match reader.named(field, &FIELDS) {
            Some("name") => declaration.name = Some(reader.text("name", value)),
            Some("type") => declaration.kind = Some(reader.text("type", value)),
            Some("secret") => declaration.secret = Some(reader.flag(value)),
            Some("default") => declaration.default = Some(reader.expression(value)),
            Some(_) => {}
            None => {
                let name = field.scalar_text();
                let near = text::did_you_mean(&name, FIELDS);
                let message = format!("config {:?} has no field {name:?}{near}", declaration.key);
                reader.syntax.push(Diagnostic::warning(field.line, message));
            }
        }
    }
    declaration
}

/// A type by its name: a scalar, `object`, or `List<…>` of them.
#[must_use]
pub fn named_type(name: &str) -> Option<Type> {
    let name = name.to_ascii_lowercase();
    if let Some(element) = name
        .strip_prefix("list<")
        .and_then(|rest| rest.strip_suffix('>'))
    {
        return named_type(element.trim()).map(|element| Type::List(Box::new(element)));
    }
    match name.as_str() {
        "string" => Some(Type::String),
        "bool" | "boolean" => Some(Type::Bool),
        "number" => Some(Type::Number),
        "int" | "integer" => Some(Type::Integer),
        "object" => Some(Type::Map(Box::new(Type::Any))),
        _ => None,
    }
}

impl Declaration {
    /// What is known of its value: the type of the default, else the declared one.
    #[must_use]
    pub fn type_of(&self) -> Type {
        match &self.default {
            Some(default) => literal_type(default),
            None => self
                .kind
                .as_deref()
                .and_then(named_type)
                .unwrap_or(Type::Any),
        }
    }

    /// Why a value that the stack has does not go with the declared type, if so. Text stands for what can be read from it.
    #[must_use]
    pub fn conflict(&self, given: &Type, text: Option<&str>) -> Option<String> {
        let declared = self.type_of();
        let readable = |text: &str| match declared {
            Type::Integer => text.parse::<i64>().is_ok(),
            Type::Number => text.parse::<f64>().is_ok(),
            Type::Bool => matches!(
                text,
                "1" | "0"
                    | "t"
                    | "f"
                    | "T"
                    | "F"
                    | "true"
                    | "false"
                    | "True"
                    | "False"
                    | "TRUE"
                    | "FALSE"
            ),
            _ => false,
        };
        let scalar = |kind: &Type| {
            matches!(
                kind,
                Type::Bool | Type::Number | Type::Integer | Type::String
            )
        };
        let numbers = matches!(
            (&declared, given),
            (Type::Number | Type::Integer, Type::Number | Type::Integer)
        );
        let fits = declared == *given
            || !scalar(&declared)
            || !scalar(given)
            || numbers
            || declared == Type::String
            || text.is_some_and(readable);
        (!fits).then(|| {
            format!(
                "config key {:?} cannot have conflicting types {declared}, {given}",
                self.key
            )
        })
    }

    /// The value where the stack has none; `default` is the computed default.
    pub fn without_value(&self, project: &str, default: Option<Value>) -> Result<Value, String> {
        let declared = match &self.kind {
            None => None,
            Some(name) => Some(named_type(name).ok_or_else(|| {
                format!(
                    "unexpected configuration type '{name}': valid types are string, number, integer, boolean, object and List<> of them"
                )
            })?),
        };
        let Some(default) = default else {
            if declared.is_none() {
                return Err(
                    "unable to infer type: either 'default' or 'type' is required".to_owned(),
                );
            }
            let name = self.name.as_ref().unwrap_or(&self.key);
            let prefix = if name.contains(':') {
                String::new()
            } else {
                format!("{project}:")
            };
            return Err(format!(
                "missing required configuration variable '{prefix}{name}'; run `pulumi config` to set"
            ));
        };
        let found = value_type(&default)?;
        if let Some(declared) = declared
            && found != declared
            && !(declared == Type::Integer && is_whole(&default))
        {
            return Err(format!(
                "type mismatch: default value of type {found} but type {declared} was specified"
            ));
        }
        Ok(if self.secret == Some(true) {
            secret(&default)
        } else {
            default
        })
    }
}

fn secret(value: &Value) -> Value {
    let dependencies = value.dependencies();
    Value::Output(Box::new(Output {
        value: value.flatten().value,
        secret: true,
        dependencies,
    }))
}

fn is_whole(value: &Value) -> bool {
    matches!(value, Value::Number(number) if number.is_i64() || number.is_u64())
}

fn literal_type(expression: &Expression) -> Type {
    match &expression.kind {
        ExpressionKind::Bool(_) => Type::Bool,
        ExpressionKind::Number(_) => Type::Number,
        ExpressionKind::String(_) | ExpressionKind::Interpolation(_) => Type::String,
        ExpressionKind::List(values) => Type::List(Box::new(Type::united(
            values.iter().map(literal_type).collect(),
        ))),
        ExpressionKind::Object(_) => Type::Map(Box::new(Type::Any)),
        _ => Type::Any,
    }
}

/// The config type of a default.
fn value_type(value: &Value) -> Result<Type, String> {
    match value {
        Value::Bool(_) => Ok(Type::Bool),
        Value::Number(_) => Ok(Type::Number),
        Value::String(_) => Ok(Type::String),
        Value::Object(_) => Ok(Type::Map(Box::new(Type::Any))),
        Value::List(values) => {
            let types = values
                .iter()
                .map(value_type)
                .collect::<Result<Vec<_>, _>>()?;
            match Type::united(types) {
                Type::Any => {
                    Err("the default of a config value cannot be an empty list".to_owned())
                }
                Type::Union(types) => Err(format!(
                    "heterogeneous typed lists are not allowed: found types {}",
                    types
                        .iter()
                        .map(ToString::to_string)
                        .collect::<Vec<_>>()
                        .join(" and ")
                )),
                element => Ok(Type::List(Box::new(element))),
            }
        }
        other => Err(format!(
            "the default of a config value cannot be {}",
            other.describe()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;
    use serde_json::json;

    fn declared(text: &str) -> Declaration {
        let node = syntax::parse(&format!("x: {text}")).unwrap();
        read(&mut Reader::default(), "config", &node).remove(0)
    }

    #[test]
    fn defaults_have_the_declared_type() {
        for (text, default, expected) in [
            (
                "{type: String}",
                None,
                "missing required configuration variable 'demo:x'",
            ),
            ("{type: string, name: other:y}", None, "variable 'other:y'"),
            ("{secret: true}", None, "unable to infer type"),
            ("{type: text}", None, "unexpected configuration type 'text'"),
            (
                "{type: string, default: 1}",
                Some(json!(1)),
                "default value of type number but type string",
            ),
            ("{type: Integer, default: 1}", Some(json!(1)), ""),
            (
                "{type: Integer, default: 1.5}",
                Some(json!(1.5)),
                "type mismatch",
            ),
            ("{type: List<String>, default: [a]}", Some(json!(["a"])), ""),
            ("{default: [a, 1]}", Some(json!(["a", 1])), "heterogeneous"),
            ("{default: []}", Some(json!([])), "empty list"),
        ] {
            let result = declared(text).without_value("demo", default.map(Value::from_json));
            let message = result.err().unwrap_or_default();
            assert!(
                message.contains(expected) && message.is_empty() == expected.is_empty(),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn values_of_the_stack_go_with_the_type_or_are_refused() {
        for (text, given, value, fits) in [
            ("{type: string}", Type::Number, None, true),
            ("{type: integer}", Type::Number, None, true),
            ("{type: integer}", Type::String, Some("x"), false),
            ("{type: boolean}", Type::Number, None, false),
            ("{type: List<String>}", Type::Any, None, true),
        ] {
            assert_eq!(
                declared(text).conflict(&given, value).is_none(),
                fits,
                "{text}"
            );
        }
    }

    #[test]
    fn a_secret_default_is_secret() {
        let value = declared("{default: a, secret: true}")
            .without_value("demo", Some(Value::String("a".into())));
        assert!(matches!(value, Ok(Value::Output(output)) if output.secret));
    }
}
