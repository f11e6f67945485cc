//! Resolves configuration items to values, and plans the commands that set them. Pure, apart from
//! [`ConfigSources`].

use std::path::Path;

use pko_auth::Redacted;
use pko_proto::{
    agent::{ConfigItem, ConfigValueFrom, config_item::V, config_value_from::F},
    convert::from_proto_value,
};
use serde_json::{Map, Value, json};

/// Longer values are passed by standard input, because Linux limits an argument to 128 KiB.
const MAX_ARGUMENT_BYTES: usize = 64 * 1024;

/// An invalid configuration item, in upstream's words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.text())]
pub(crate) struct ConfigError {
    key: String,
    /// Upstream's texts depend on how it sets the values.
    json_mode: bool,
    problem: ConfigProblem,
}

#[derive(Debug, PartialEq, Eq)]
enum ConfigProblem {
    MissingVariable(String),
    UnreadablePath(String),
    NoValue,
    PathOfJson,
    BadKey,
    BadJson(String),
}

impl ConfigError {
    pub(crate) fn is_invalid_argument(&self) -> bool {
        !matches!(
            self.problem,
            ConfigProblem::BadKey | ConfigProblem::BadJson(_)
        )
    }

    fn text(&self) -> String {
        let key = &self.key;
        let problem = match &self.problem {
            ConfigProblem::BadKey => {
                return format!(
                    "config items: parsing \"{key}\" key: could not parse {key} as a configuration key"
                );
            }
            ConfigProblem::BadJson(error) => {
                return format!("config items: parsing \"{key}\" as JSON: {error}");
            }
            ConfigProblem::MissingVariable(name) => {
                format!("missing value for environment variable: {name}")
            }
            ConfigProblem::UnreadablePath(path) => format!("unreadable path: {path}"),
            ConfigProblem::NoValue => "invalid config value".to_owned(),
            ConfigProblem::PathOfJson => {
                format!("config item \"{key}\": path=true is incompatible with JSON values")
            }
        };
        let place = if self.json_mode {
            String::new()
        } else {
            format!("unmarshalling \"{key}\" config: ")
        };
        format!("config items: {place}rpc error: code = InvalidArgument desc = {problem}")
    }
}

/// Where values that are not in the message come from.
pub(crate) struct ConfigSources<'a> {
    pub(crate) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) file: &'a dyn Fn(&Path) -> Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResolvedConfig {
    namespace: String,
    name: ConfigName,
    text: Redacted,
    /// The text is JSON, and is set as a structure.
    is_structured: bool,
    pub(crate) secret: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum ConfigName {
    Literal(String),
    Path(String),
}

impl ResolvedConfig {
    pub(crate) fn text(&self) -> &str {
        self.text.expose()
    }

    fn structure(&self) -> Option<Value> {
        let parsed = serde_json::from_str(self.text()).ok();
        parsed.filter(|_| self.is_structured)
    }

    /// Everything that decides what is set.
    pub(crate) fn fingerprint(&self) -> String {
        let shape = (&self.namespace, &self.name, self.secret, self.is_structured);
        format!("{shape:?}={}", self.text())
    }
}

/// A command of the CLI that sets values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConfigCommand {
    /// `KEY=VALUE` pairs, with paths as keys.
    Paths(Vec<String>),
    /// A JSON document.
    Document(String),
    /// One value, by standard input.
    One {
        key: String,
        path: bool,
        secret: bool,
        value: Redacted,
    },
}

pub(crate) fn resolve(
    items: &[ConfigItem],
    project: &str,
    sources: &ConfigSources<'_>,
) -> Result<Vec<ResolvedConfig>, ConfigError> {
    let json_mode = items.iter().any(is_json);
    let resolve = |item: &ConfigItem| {
        resolve_item(item, project, sources).map_err(|problem| ConfigError {
            key: item.key.clone(),
            json_mode,
            problem,
        })
    };
    items.iter().map(resolve).collect()
}

fn is_json(item: &ConfigItem) -> bool {
    match &item.v {
        Some(V::Value(value)) => !matches!(from_proto_value(value), Value::String(_) | Value::Null),
        Some(V::ValueFrom(from)) => from.json(),
        None => false,
    }
}

fn resolve_item(
    item: &ConfigItem,
    project: &str,
    sources: &ConfigSources<'_>,
) -> Result<ResolvedConfig, ConfigProblem> {
    let (text, is_structured) = match item.v.as_ref().ok_or(ConfigProblem::NoValue)? {
        V::Value(value) => literal(from_proto_value(value)),
        V::ValueFrom(from) => read_source(from, sources)?,
    };
    if item.path() && is_structured {
        return Err(ConfigProblem::PathOfJson);
    }
    let (namespace, name) = key(&item.key, project).ok_or(ConfigProblem::BadKey)?;
    let name = if item.path() {
        ConfigName::Path(name)
    } else {
        ConfigName::Literal(unescape(name))
    };
    Ok(ResolvedConfig {
        namespace,
        name,
        text: Redacted::new(text),
        is_structured,
        secret: item.secret(),
    })
}

/// The text, and whether it is structured.
fn literal(value: Value) -> (String, bool) {
    match value {
        Value::String(text) => (text, false),
        Value::Null => ("null".to_owned(), false),
        other => (other.to_string(), true),
    }
}

fn read_source(
    from: &ConfigValueFrom,
    sources: &ConfigSources<'_>,
) -> Result<(String, bool), ConfigProblem> {
    let text = match from.f.as_ref().ok_or(ConfigProblem::NoValue)? {
        F::Env(name) => {
            (sources.variable)(name).ok_or_else(|| ConfigProblem::MissingVariable(name.clone()))
        }
        F::Path(path) => (sources.file)(Path::new(path))
            .ok_or_else(|| ConfigProblem::UnreadablePath(path.clone())),
    }?;
    if !from.json() {
        return Ok((text, false));
    }
    // The error has only line and column, because the text may be secret.
    let object: Value = serde_json::from_str(&text).map_err(|error| {
        ConfigProblem::BadJson(format!("line {} column {}", error.line(), error.column()))
    })?;
    Ok((text, !object.is_null()))
}

/// Namespace and name. The default namespace is the project.
fn key(key: &str, project: &str) -> Option<(String, String)> {
    let parts: Vec<&str> = key.split(':').collect();
    let (namespace, name) = match parts.as_slice() {
        [name] => (project, *name),
        [namespace, name] | [namespace, "config", name] => (*namespace, *name),
        _ => return None,
    };
    let good = !namespace.is_empty() && !name.is_empty() && !key.contains('\0');
    good.then(|| (namespace.to_owned(), name.to_owned()))
}

/// Unquotes a name that is written as a path of one part.
fn unescape(name: String) -> String {
    let inner = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let quoted = inner.filter(|inner| inner.starts_with('"') && inner.len() > 1);
    let plain = quoted.and_then(|quoted| serde_json::from_str(quoted).ok());
    plain.unwrap_or(name)
}

/// The commands that set the values: one or two for all plain values, and one for each secret.
pub(crate) fn plan(items: &[ResolvedConfig]) -> Vec<ConfigCommand> {
    let (by_stdin, together): (Vec<_>, Vec<_>) = items.iter().partition(|item| needs_stdin(item));
    let document_needed = together.iter().any(|item| needs_document(item));
    let (document, paths): (Vec<_>, Vec<_>) = together
        .into_iter()
        .partition(|item| document_needed && matches!(item.name, ConfigName::Literal(_)));
    let mut calls = Vec::new();
    if !paths.is_empty() {
        calls.push(ConfigCommand::Paths(paths.into_iter().map(pair).collect()));
    }
    if !document.is_empty() {
        let entries: Map<String, Value> = document.into_iter().map(entry).collect();
        calls.push(ConfigCommand::Document(Value::Object(entries).to_string()));
    }
    calls.extend(by_stdin.into_iter().map(one));
    calls
}

/// Secrets must not be in arguments. Neither can long values, values with a zero byte, and paths
/// that contain `=`.
fn needs_stdin(item: &ResolvedConfig) -> bool {
    let strange_path = matches!(&item.name, ConfigName::Path(path) if path.contains('='));
    let text = item.text();
    item.secret || strange_path || text.len() > MAX_ARGUMENT_BYTES || text.contains('\0')
}

/// Structured values and keys that the CLI would split cannot be pairs.
fn needs_document(item: &ResolvedConfig) -> bool {
    match &item.name {
        ConfigName::Literal(name) => {
            item.is_structured || name.contains('=') || item.namespace.contains('.')
        }
        ConfigName::Path(_) => false,
    }
}

fn pair(item: &ResolvedConfig) -> String {
    let name = match &item.name {
        ConfigName::Path(path) => path.clone(),
        ConfigName::Literal(name) => format!("[{}]", Value::from(name.as_str())),
    };
    format!("{}:{name}={}", item.namespace, item.text())
}

fn entry(item: &ResolvedConfig) -> (String, Value) {
    let mut value = json!({"value": item.text(), "secret": false});
    if let (Some(object), Some(fields)) = (item.structure(), value.as_object_mut()) {
        fields.insert("objectValue".to_owned(), object);
    }
    (plain_key(item), value)
}

fn one(item: &ResolvedConfig) -> ConfigCommand {
    ConfigCommand::One {
        key: plain_key(item),
        path: matches!(item.name, ConfigName::Path(_)),
        secret: item.secret,
        // The CLI removes one line end.
        value: Redacted::new(format!("{}\n", item.text())),
    }
}

fn plain_key(item: &ResolvedConfig) -> String {
    let (ConfigName::Literal(name) | ConfigName::Path(name)) = &item.name;
    format!("{}:{name}", item.namespace)
}

#[cfg(test)]
mod tests;
