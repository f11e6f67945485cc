//! Defaults of config variables, for those that the stack does not set.

use pulumi_yaml::{
    config::{ConfigVariable, named_type},
    types::Type,
};

use super::value::{Output, Value};

/// The value of a config variable that the stack does not set. `default` is its computed default.
pub(super) fn resolve_default(
    variable: &ConfigVariable,
    project: &str,
    default: Option<Value>,
) -> Result<Value, String> {
    let declared = match &variable.kind {
        None => None,
        Some(name) => Some(named_type(name).ok_or_else(|| {
            format!(
                "unexpected configuration type '{name}': valid types are string, number, integer, boolean, object and List<> of them"
            )
        })?),
    };
    let Some(default) = default else {
        if declared.is_none() {
            return Err("unable to infer type: either 'default' or 'type' is required".to_owned());
        }
        let name = variable.name.as_ref().unwrap_or(&variable.key);
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
    Ok(if variable.secret == Some(true) {
        secret(&default)
    } else {
        default
    })
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
            match Type::union_of(types) {
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
    use pulumi_yaml::{parse, syntax};
    use serde_json::json;

    fn declared(text: &str) -> ConfigVariable {
        let root = syntax::parse(&format!("config: {{x: {text}}}")).unwrap();
        parse::parse(&root, &[]).unwrap().config.remove(0)
    }

    #[test]
    fn config_default_must_match_declared_type() {
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
            let result = resolve_default(&declared(text), "demo", default.map(Value::from_json));
            let message = result.err().unwrap_or_default();
            assert!(
                message.contains(expected) && message.is_empty() == expected.is_empty(),
                "{text}: {message}"
            );
        }
    }

    #[test]
    fn config_default_of_secret_is_secret() {
        let variable = declared("{default: a, secret: true}");
        let value = resolve_default(&variable, "demo", Some(Value::String("a".into())));
        assert!(matches!(value, Ok(Value::Output(output)) if output.secret));
    }
}
