//! The config variables of a program, with types and defaults.

use crate::{
    Diagnostic,
    expression::{Expression, ExpressionKind},
    keys::CONFIG_FIELDS,
    parse::Reader,
    syntax::{Node, Position},
    text,
    types::Type,
};

/// A config variable as the program declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigVariable {
    /// Its name in the program.
    pub key: String,
    /// Its key in the stack's config, if that differs.
    pub name: Option<String>,
    /// Its type as written.
    pub kind: Option<String>,
    /// Its value where the stack sets none.
    pub default: Option<Expression>,
    /// Whether the program marks it as secret.
    pub secret: Option<bool>,
    /// Line of the key.
    pub line: Position,
}

/// Reads `config` or `configuration`.
pub(super) fn read(reader: &mut Reader, section: &str, node: &Node) -> Vec<ConfigVariable> {
    let entries = reader.entries(section, node);
    entries
        .iter()
        .map(|(key, value)| declaration(reader, key, value))
        .collect()
}

fn declaration(reader: &mut Reader, key: &Node, node: &Node) -> ConfigVariable {
    let mut declaration = ConfigVariable {
        key: key.scalar_text(),
        name: None,
        kind: None,
        default: None,
        secret: None,
        line: key.line,
    };
    // the short form sets a value for the project, which is part of the stack's config
    let Some(fields) = node.entries() else {
        return declaration;
    };
    for (field, value) in fields {
        match reader.known_key(field, &CONFIG_FIELDS) {
            Some("name") => declaration.name = Some(reader.text("name", value)),
            Some("type") => declaration.kind = Some(reader.text("type", value)),
            Some("secret") => declaration.secret = Some(reader.flag(value)),
            Some("default") => declaration.default = Some(reader.expression(value)),
            Some(_) => {}
            None => {
                let name = field.scalar_text();
                let near = text::did_you_mean(&name, CONFIG_FIELDS);
                let message = format!("config {:?} has no field {name:?}{near}", declaration.key);
                reader.syntax.push(Diagnostic::warning(field.line, message));
            }
        }
    }
    declaration
}

/// Parses the name of a type: a scalar, `object`, or `List<…>` of them.
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

impl ConfigVariable {
    /// The type of the default, else the declared type.
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

    /// An error if the stack's value conflicts with the declared type. A string matches the types
    /// that it can be parsed as.
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
}

fn literal_type(expression: &Expression) -> Type {
    match &expression.kind {
        ExpressionKind::Bool(_) => Type::Bool,
        ExpressionKind::Number(_) => Type::Number,
        ExpressionKind::String(_) | ExpressionKind::Interpolation(_) => Type::String,
        ExpressionKind::List(values) => Type::List(Box::new(Type::union_of(
            values.iter().map(literal_type).collect(),
        ))),
        ExpressionKind::Object(_) => Type::Map(Box::new(Type::Any)),
        _ => Type::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax;

    fn declared(text: &str) -> ConfigVariable {
        let node = syntax::parse(&format!("x: {text}")).unwrap();
        read(&mut Reader::default(), "config", &node).remove(0)
    }

    #[test]
    fn config_value_of_wrong_type_conflicts() {
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
}
