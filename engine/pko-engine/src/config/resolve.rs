//! The values for the program: those of the stack over defaults of the project.

use std::collections::BTreeMap;

use pulumi_engine_model::property::Property;
use pulumi_engine_state::secrets::{Crypter, SecretsError};
use pulumi_yaml::text;
use serde_json::Value;

use super::{
    key::{Key, KeyError},
    value,
};
use crate::project::{ConfigDeclaration, Project};

/// A conflict between the config and the project.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ResolveError {
    /// Required values are missing.
    #[error("Stack '{stack}' is missing configuration {} {}", plural(.keys), quoted_list(.keys))]
    Missing { stack: String, keys: Vec<String> },
    /// A value has the wrong type.
    #[error("Stack '{stack}' with configuration key '{key}' must be of type '{kind}'")]
    Type {
        stack: String,
        key: String,
        kind: String,
    },
    /// A value must be secret.
    #[error("Stack '{stack}' with configuration key '{key}' must be encrypted as it's secret")]
    Open { stack: String, key: String },
    /// A value could not be decrypted.
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    /// A malformed key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

fn plural(keys: &[String]) -> &'static str {
    if keys.len() == 1 { "value" } else { "values" }
}

/// Formats a sorted list: "'a', 'b' and 'c'".
fn quoted_list(keys: &[String]) -> String {
    let mut keys: Vec<_> = keys.iter().map(|key| format!("'{key}'")).collect();
    keys.sort();
    match keys.pop() {
        Some(last) if !keys.is_empty() => format!("{} and {last}", keys.join(", ")),
        only => only.unwrap_or_default(),
    }
}

/// One decrypted value.
#[derive(Clone)]
pub(crate) struct Resolved {
    /// As a string.
    pub text: String,
    /// The list or map of the stack, else the string.
    content: Value,
    /// As in the stack's file: secrets are encrypted.
    pub stored: Value,
    pub secret: bool,
}

/// Config of a run.
pub(crate) type Config = BTreeMap<Key, Resolved>;

/// Merges the values of a stack and its project, and checks them against the declarations.
pub(crate) fn resolve(
    stack: &str,
    project: &Project,
    entries: Vec<(Key, Value)>,
    crypter: &impl Fn() -> Result<Crypter, SecretsError>,
) -> Result<Config, ResolveError> {
    let (config, missing) = merge(project, entries, crypter)?;
    if missing.is_empty() {
        check(stack, project, &config)?;
        return Ok(config);
    }
    Err(ResolveError::Missing {
        stack: stack.to_owned(),
        keys: missing,
    })
}

/// Values of a stack over those of its project, and the missing ones.
pub(crate) fn merge(
    project: &Project,
    entries: Vec<(Key, Value)>,
    crypter: &impl Fn() -> Result<Crypter, SecretsError>,
) -> Result<(Config, Vec<String>), ResolveError> {
    let mut config = Config::new();
    for (key, stored) in entries {
        config.insert(key, resolved(stored, crypter)?);
    }
    let mut missing = Vec::new();
    for (name, declaration) in &project.config {
        let key = Key::parse(name, &project.name)?;
        if config.contains_key(&key) {
            continue;
        }
        match &declaration.default {
            Some(default) => _ = config.insert(key, resolved(default.clone(), crypter)?),
            None if key.namespace == project.name => missing.push(name.clone()),
            None => {}
        }
    }
    Ok((config, missing))
}

fn check(stack: &str, project: &Project, config: &Config) -> Result<(), ResolveError> {
    for (name, declaration) in typed(project) {
        let key = Key::parse(name, &project.name)?;
        let Some(resolved) = config.get(&key) else {
            continue;
        };
        let (stack, key) = (stack.to_owned(), name.clone());
        if declaration.secret && !resolved.secret {
            return Err(ResolveError::Open { stack, key });
        }
        if !declaration.fits(&resolved.content) {
            let kind = declaration.type_name();
            return Err(ResolveError::Type { stack, key, kind });
        }
    }
    Ok(())
}

/// The typed declarations, by name.
fn typed(project: &Project) -> BTreeMap<&String, &ConfigDeclaration> {
    let declared = project.config.iter().map(|(name, value)| (name, value));
    declared.filter(|(_, value)| value.kind.is_some()).collect()
}

fn resolved(
    stored: Value,
    crypter: &impl Fn() -> Result<Crypter, SecretsError>,
) -> Result<Resolved, SecretsError> {
    let opened = value::opened(&stored, crypter)?;
    let text = value::as_text(&opened);
    let content = match opened {
        Value::Object(_) | Value::Array(_) => opened,
        _ => Value::String(text.clone()),
    };
    Ok(Resolved {
        text,
        content,
        secret: value::is_secret(&stored),
        stored,
    })
}

/// Config for the program, by name without the project's prefix.
#[must_use]
pub(crate) fn properties(config: &Config, project: &str) -> BTreeMap<String, Property> {
    config
        .iter()
        .map(|(key, resolved)| {
            let name = if key.namespace == project {
                key.name.clone()
            } else {
                key.to_string()
            };
            let value = infer(&resolved.text);
            (
                name,
                if resolved.secret {
                    value.into_secret()
                } else {
                    value
                },
            )
        })
        .collect()
}

/// Parses a string as Pulumi's YAML host does, independent of the declared type.
fn infer(value: &str) -> Property {
    let text = || Property::String(value.to_owned());
    if value.len() > 1 && value.starts_with('0') && !value.starts_with("0.") {
        return text();
    }
    if let Ok(number) = value.parse::<i64>() {
        return Property::Number(number.into());
    }
    match value {
        "t" | "T" | "true" | "True" | "TRUE" => return Property::Bool(true),
        "f" | "F" | "false" | "False" | "FALSE" => return Property::Bool(false),
        _ => {}
    }
    if let Some(number) = value.parse().ok().and_then(text::from_float) {
        return Property::Number(number);
    }
    serde_json::from_str(value).map_or_else(|_| text(), Property::from_json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulumi_yaml::syntax;
    use serde_json::json;

    fn project(config: &str) -> Project {
        Project::parse(
            &syntax::parse(&format!("name: demo\nruntime: yaml\nconfig: {config}")).unwrap(),
        )
        .unwrap()
    }

    fn show(config: &str, values: &[(&str, Value)]) -> Result<Vec<String>, String> {
        let entries = values
            .iter()
            .map(|(key, value)| (Key::parse(key, "demo").unwrap(), value.clone()))
            .collect();
        let none = || Err(SecretsError::Encrypt);
        let config =
            resolve("dev", &project(config), entries, &none).map_err(|error| error.to_string())?;
        Ok(properties(&config, "demo")
            .iter()
            .map(|(key, value)| format!("{key}={value:?}"))
            .collect())
    }

    #[test]
    fn config_stack_value_overrides_default() {
        let declared = "{s: {type: string, default: text}, i: {type: integer, default: 7}}";
        assert_eq!(show(declared, &[]).unwrap(), ["i=7", "s=\"text\""]);
        assert_eq!(
            show(declared, &[("s", json!("x"))]).unwrap(),
            ["i=7", "s=\"x\""]
        );
        assert_eq!(show("{short: value}", &[]).unwrap(), ["short=\"value\""]);
        assert_eq!(
            show("{}", &[("aws:region", json!("eu"))]).unwrap(),
            ["aws:region=\"eu\""]
        );
    }

    #[test]
    fn config_mismatch_reports_error() {
        for (declared, values, expected) in [
            (
                "{need: {type: string}}",
                vec![],
                "Stack 'dev' is missing configuration value 'need'",
            ),
            (
                "{c: {type: string}, b: {type: string}, a: {type: string}}",
                vec![],
                "Stack 'dev' is missing configuration values 'a', 'b' and 'c'",
            ),
            (
                "{n: {type: integer}}",
                vec![("n", json!("abc"))],
                "Stack 'dev' with configuration key 'n' must be of type 'integer'",
            ),
            (
                "{b: {type: boolean}}",
                vec![("b", json!("yes"))],
                "Stack 'dev' with configuration key 'b' must be of type 'boolean'",
            ),
            (
                "{l: {type: array, items: {type: integer}}}",
                vec![("l", json!(["x"]))],
                "Stack 'dev' with configuration key 'l' must be of type 'array<integer>'",
            ),
            (
                "{l: {type: array, items: {type: string}}}",
                vec![("l", json!("[\"x\"]"))],
                "Stack 'dev' with configuration key 'l' must be of type 'array<string>'",
            ),
            (
                "{o: {type: object}}",
                vec![("o", json!([1]))],
                "Stack 'dev' with configuration key 'o' must be of type 'object'",
            ),
        ] {
            assert_eq!(show(declared, &values).unwrap_err(), expected);
        }
    }

    #[test]
    fn config_strings_parse_as_in_pulumi() {
        for (text, expected) in [
            ("007", "\"007\""),
            ("0", "0"),
            ("0.5", "0.5"),
            ("12", "12"),
            ("-3", "-3"),
            ("1e3", "1000"),
            ("true", "true"),
            ("t", "true"),
            ("yes", "\"yes\""),
            ("[1,\"a\"]", "[1, \"a\"]"),
            ("{\"a\":1}", "{\"a\": 1}"),
            ("\"quoted\"", "\"quoted\""),
            ("plain", "\"plain\""),
            ("", "\"\""),
            ("nan", "\"nan\""),
            ("9007199254740993", "9007199254740993"),
        ] {
            assert_eq!(format!("{:?}", infer(text)), expected, "{text}");
        }
    }
}
