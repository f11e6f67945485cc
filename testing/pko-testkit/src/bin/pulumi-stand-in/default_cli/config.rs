//! `pulumi config`: a stack's configuration, in `Pulumi.<stack>.yaml`.

use std::{collections::BTreeMap, env, fs, io::Read, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    config_path::{self, PathSegment},
    is_cloud,
    outputs::Output,
    passphrase, print_json,
    program::YamlProgram,
    stacks::selected_stack,
    state_file::StateFile,
    yaml_writer,
};
use crate::{
    cli_error::{CliError, CliResult},
    script_runner::CallContext,
};

#[derive(Debug)]
pub(super) struct StackFile {
    path: PathBuf,
    contents: Map<String, Value>,
}

impl StackFile {
    pub(super) fn path(stack: &str) -> CliResult<PathBuf> {
        Ok(env::current_dir()?.join(format!("Pulumi.{stack}.yaml")))
    }

    pub(super) fn load(stack: &str) -> CliResult<Self> {
        let path = Self::path(stack)?;
        let text = fs::read_to_string(&path).unwrap_or_default();
        let contents: Option<Map<String, Value>> = serde_saphyr::from_str(&text)?;
        Ok(Self {
            path,
            contents: contents.unwrap_or_default(),
        })
    }

    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.contents.insert(key.to_owned(), value.into());
    }

    /// Configuration comes last, as in the CLI.
    pub(super) fn save(&self) -> CliResult<()> {
        let (configuration, others): (Vec<_>, Vec<_>) =
            self.contents.iter().partition(|(key, _)| *key == "config");
        let entries = others.into_iter().chain(configuration);
        let text: String = entries
            .map(|(key, value)| yaml_writer::entry(key, value, 0))
            .collect();
        Ok(fs::write(&self.path, text)?)
    }

    fn configuration(&mut self) -> &mut Map<String, Value> {
        let place = self.contents.entry("config").or_insert(json!({}));
        if !place.is_object() {
            *place = json!({});
        }
        match place {
            Value::Object(map) => map,
            _ => unreachable!("it was just made an object"),
        }
    }

    /// The decrypted configuration, by full key.
    pub(super) fn values(&mut self) -> CliResult<BTreeMap<String, Output>> {
        let entries = self.configuration().iter();
        let value = |(key, value): (&String, &Value)| Ok((key.clone(), decrypt_value(value)?));
        entries.map(value).collect()
    }
}

/// A secret anywhere makes the whole one.
fn decrypt_value(value: &Value) -> CliResult<Output> {
    if let Some(secure) = value.get("secure").and_then(Value::as_str) {
        let value = Value::from(passphrase::decrypt(secure)?);
        return Ok(Output {
            value,
            secret: true,
        });
    }
    let mut secret = false;
    let mut inner = |value: &Value| -> CliResult<Value> {
        let output = decrypt_value(value)?;
        secret |= output.secret;
        Ok(output.value)
    };
    let value = match value {
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| Ok((key.clone(), inner(value)?)));
            Value::Object(entries.collect::<CliResult<_>>()?)
        }
        Value::Array(items) => Value::Array(items.iter().map(inner).collect::<CliResult<_>>()?),
        other => other.clone(),
    };
    Ok(Output { value, secret })
}

struct ConfigSetting {
    key: String,
    path: bool,
    secret: bool,
    text: String,
    /// Written instead of the text.
    object: Option<Value>,
}

impl ConfigSetting {
    fn apply(self, project: &str, file: &mut StackFile) -> CliResult<()> {
        let (namespace, name) = match self.key.split_once(':') {
            Some((namespace, name)) => (namespace.to_owned(), name),
            None => (project.to_owned(), self.key.as_str()),
        };
        let mut parts = if self.path {
            config_path::parse(name)?
        } else {
            vec![PathSegment::Key(name.to_owned())]
        };
        let inside = parts.len() > 1;
        let value = self.value(inside);
        if let Some(PathSegment::Key(first)) = parts.first_mut() {
            *first = format!("{namespace}:{first}");
        }
        let mut whole = Value::Object(std::mem::take(file.configuration()));
        config_path::set(&mut whole, &parts, value)?;
        if let Value::Object(map) = whole {
            *file.configuration() = map;
        }
        Ok(())
    }

    fn value(&self, inside: bool) -> Value {
        match &self.object {
            _ if self.secret => json!({ "secure": passphrase::encrypt(&self.text) }),
            Some(object) => object.clone(),
            None if inside => config_path::leaf(&self.text),
            None => Value::from(self.text.as_str()),
        }
    }
}

/// Sets values, in a stack that must exist; its passphrase only matters if there is a secret.
fn apply(context: &CallContext, settings: Vec<ConfigSetting>) -> CliResult<()> {
    let project = YamlProgram::load()?.name;
    let name = selected_stack(context, &project)?;
    let mut state = StateFile::read(&context.folder)?;
    let stack = state.stack(&name)?;
    let mut file = StackFile::load(&name.stack)?;
    if settings.iter().any(|setting| setting.secret) {
        passphrase::check(stack, "")?;
        if let Some(salt) = &stack.salt {
            file.set("encryptionsalt", salt.clone());
        }
    }
    for setting in settings {
        setting.apply(&project, &mut file)?;
    }
    file.save()
}

pub(super) fn set(context: &CallContext) -> CliResult<()> {
    let line = &context.line;
    let text = match line.nth(3) {
        Some(value) => value.to_owned(),
        None => standard_input(context)?,
    };
    let setting = ConfigSetting {
        key: line.nth(2).ok_or("a value needs a key")?.to_owned(),
        path: line.has("--path"),
        secret: line.has("--secret"),
        text,
        object: None,
    };
    apply(context, vec![setting])
}

fn standard_input(context: &CallContext) -> CliResult<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    context.recorder.input(&text)?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

pub(super) fn set_all(context: &CallContext) -> CliResult<()> {
    let settings = match context.line.value("--json") {
        Some(document) => document_settings(document)?,
        None => pair_settings(context)?,
    };
    apply(context, settings)
}

fn pair_settings(context: &CallContext) -> CliResult<Vec<ConfigSetting>> {
    let path = context.line.has("--path");
    let flags = context.line.flags().iter();
    let pairs = flags.filter(|(name, _)| name == "--plaintext" || name == "--secret");
    let setting = |(name, pair): &(String, String)| {
        let (key, text) = pair.split_once('=').ok_or("a pair has a =")?;
        Ok(ConfigSetting {
            key: key.to_owned(),
            path,
            secret: name == "--secret",
            text: text.to_owned(),
            object: None,
        })
    };
    pairs.map(setting).collect()
}

/// An entry of the document of `config set-all --json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SetAllEntry {
    value: String,
    object_value: Option<Value>,
    #[serde(default)]
    secret: bool,
}

fn document_settings(document: &str) -> CliResult<Vec<ConfigSetting>> {
    let entries: BTreeMap<String, SetAllEntry> = serde_json::from_str(document)?;
    let setting = |(key, entry): (String, SetAllEntry)| {
        if entry.secret && entry.object_value.is_some() {
            let text = "invalid character 'v' looking for beginning of value";
            return CliError::result(1, text);
        }
        Ok(ConfigSetting {
            key,
            // The names of structured values are taken for paths.
            path: entry.object_value.is_some(),
            secret: entry.secret,
            text: entry.value,
            object: entry.object_value,
        })
    };
    entries.into_iter().map(setting).collect()
}

pub(super) fn remove(context: &CallContext) -> CliResult<()> {
    let project = YamlProgram::load()?.name;
    let name = selected_stack(context, &project)?;
    StateFile::read(&context.folder)?.stack(&name)?;
    let mut file = StackFile::load(&name.stack)?;
    let key = context.line.nth(2).unwrap_or_default();
    file.configuration().remove(key);
    file.save()
}

pub(super) fn add_environments(context: &CallContext) -> CliResult<()> {
    let name = selected_stack(context, &YamlProgram::load()?.name)?;
    StateFile::read(&context.folder)?.stack(&name)?;
    if !is_cloud() {
        return CliError::result(
            1,
            "backend host does not support environments; Pulumi ESC environments require the Pulumi Cloud \
             backend, use `pulumi login` without arguments to log into the Pulumi Cloud backend",
        );
    }
    let mut file = StackFile::load(&name.stack)?;
    let present = file.contents.get("environment").cloned();
    let mut all: Vec<Value> = present
        .and_then(|present| present.as_array().cloned())
        .unwrap_or_default();
    let added = (3..).map_while(|index| context.line.nth(index));
    all.extend(added.map(Value::from));
    file.set("environment", all);
    file.save()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigEntry {
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_value: Option<Value>,
    secret: bool,
}

pub(super) fn show(context: &CallContext) -> CliResult<()> {
    let name = selected_stack(context, &YamlProgram::load()?.name)?;
    let mut state = StateFile::read(&context.folder)?;
    let stack = state.stack(&name)?;
    let values = StackFile::load(&name.stack)?.values()?;
    if values.values().any(|output| output.secret) {
        passphrase::check(stack, "")?;
    }
    let config_entry = values
        .into_iter()
        .map(|(key, output)| (key, config_entry(output)));
    print_json(&config_entry.collect::<BTreeMap<_, _>>())
}

fn config_entry(output: Output) -> ConfigEntry {
    let structured = output.value.is_object() || output.value.is_array();
    ConfigEntry {
        value: text(&output.value),
        object_value: structured.then_some(output.value),
        secret: output.secret,
    }
}

/// A value as one text.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
