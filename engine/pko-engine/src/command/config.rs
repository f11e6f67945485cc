//! `config`: the config of a stack.

use std::{collections::BTreeMap, io::Read as _};

use anyhow::{Context as _, bail};
use pulumi_engine_model::{property::BLINDED, urn::StackIdentity};
use pulumi_engine_state::secrets::{Crypter, SecretsError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{context::ProjectContext, pretty};
use crate::{
    args::{ConfigArgs, ConfigCommand},
    config::{key::Key, stack_file::StackFile, value},
    display,
};

/// Sets values for this and later runs.
pub(super) fn set_for_run(
    context: &ProjectContext,
    stack: &StackIdentity,
    pairs: &[String],
    path: bool,
) -> anyhow::Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let mut editor = Editor {
        context,
        stack,
        file: context.stack_file(stack)?,
    };
    for pair in pairs {
        let (key, text) = pair.split_once('=').unwrap_or((pair, ""));
        editor.set(key, path, text, false)?;
    }
    Ok(editor.file.save()?)
}

pub(super) fn run(arguments: ConfigArgs) -> anyhow::Result<()> {
    if matches!(arguments.command, Some(ConfigCommand::Env { .. })) {
        bail!(
            "backend host does not support environments; Pulumi ESC environments require the Pulumi Cloud backend"
        );
    }
    let context = ProjectContext::load()?;
    let stack = context.stack(arguments.stack.as_deref())?;
    context.require(&stack)?;
    let file = context.stack_file(&stack)?;
    let mut editor = Editor {
        context: &context,
        stack: &stack,
        file,
    };
    match arguments.command {
        None => return editor.list(arguments.json, arguments.show_secrets),
        Some(ConfigCommand::Get { key, path, json }) => return editor.get(&key, path, json),
        Some(ConfigCommand::Set {
            key,
            value,
            path,
            plaintext: _,
            secret,
        }) => {
            let text = value.map_or_else(read_value, Ok)?;
            editor.set(&key, path, &text, secret)?;
        }
        Some(ConfigCommand::SetAll {
            plaintext,
            secret,
            path,
            document,
        }) => {
            for (pairs, secret) in [(plaintext, false), (secret, true)] {
                for pair in pairs {
                    let (key, text) = pair
                        .split_once('=')
                        .context("config value must be in the form [key]=[value]")?;
                    editor.set(key, path, text, secret)?;
                }
            }
            if let Some(document) = document {
                editor.set_document(&document)?;
            }
        }
        Some(ConfigCommand::Rm { key, path }) => editor.remove(&key, path)?,
        Some(ConfigCommand::RmAll { keys, path }) => {
            for key in keys {
                editor.remove(&key, path)?;
            }
        }
        Some(ConfigCommand::Env { .. }) => {}
    }
    Ok(editor.file.save()?)
}

/// Reads a value from standard input, without its trailing line break, so secrets are not in argv.
fn read_value() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(text.strip_suffix('\r').unwrap_or(text).to_owned())
}

/// One value of a document given to `set-all --json`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentValue {
    value: Option<String>,
    object_value: Option<Value>,
    #[serde(default)]
    secret: bool,
}

struct Editor<'a> {
    context: &'a ProjectContext,
    stack: &'a StackIdentity,
    file: StackFile,
}

impl Editor<'_> {
    fn project(&self) -> &str {
        self.context.project_name()
    }

    /// Encrypts a value. The first secret of a file adds the salt to it.
    fn seal(&mut self, text: &str) -> anyhow::Result<Value> {
        let checkpoint = self.context.require(self.stack)?;
        let crypter = self.context.open_secrets(&self.file, &checkpoint)?;
        if self.file.salt().is_none() {
            self.file.set_salt(crypter.state())?;
        }
        Ok(value::sealed(&crypter.encrypt(text)?))
    }

    fn set(&mut self, key: &str, path: bool, text: &str, secret: bool) -> anyhow::Result<()> {
        let (key, steps) = self.key(key, path)?;
        let new = if secret {
            self.seal(text)?
        } else if steps.is_empty() {
            Value::String(text.to_owned())
        } else {
            value::coerced(text)
        };
        self.set_at(&key, &steps, new)
    }

    fn set_at(
        &mut self,
        key: &Key,
        steps: &[pulumi_yaml::access::Accessor],
        new: Value,
    ) -> anyhow::Result<()> {
        // the path replaces a plain value by a list or map
        let mut root = match self.stored(key)? {
            Some(stored) if !steps.is_empty() && value::is_structured(&stored) => stored,
            _ => Value::Null,
        };
        value::set(&mut root, steps, new).context("could not set config")?;
        Ok(self.file.set(key, &root)?)
    }

    fn set_document(&mut self, document: &str) -> anyhow::Result<()> {
        let values: BTreeMap<String, DocumentValue> =
            serde_json::from_str(document).context("failed to parse the config document")?;
        for (key, item) in values {
            let text = item
                .value
                .or_else(|| item.object_value.as_ref().map(value::as_text));
            let text = text.with_context(|| {
                format!("config value {key:?} has neither value nor objectValue")
            })?;
            match item.object_value {
                // a secret object is encrypted as JSON, which programs accept as well
                _ if item.secret => self.set(&key, false, &text, true)?,
                Some(object) => {
                    let (key, steps) = self.key(&key, true)?;
                    self.set_at(&key, &steps, object)?;
                }
                None => self.set(&key, false, &text, false)?,
            }
        }
        Ok(())
    }

    fn remove(&mut self, key: &str, path: bool) -> anyhow::Result<()> {
        let (key, steps) = self.key(key, path)?;
        if steps.is_empty() {
            return Ok(self.file.unset(&key)?);
        }
        if let Some(mut root) = self.stored(&key)? {
            value::remove(&mut root, &steps);
            self.file.set(&key, &root)?;
        }
        Ok(())
    }

    fn key(
        &self,
        key: &str,
        path: bool,
    ) -> anyhow::Result<(Key, Vec<pulumi_yaml::access::Accessor>)> {
        Ok(if path {
            Key::parse_path(key, self.project())?
        } else {
            (Key::parse(key, self.project())?, Vec::new())
        })
    }

    fn stored(&self, key: &Key) -> anyhow::Result<Option<Value>> {
        let entries = self.file.entries(self.project())?;
        Ok(entries
            .into_iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value))
    }

    /// The crypter of the file, opened on demand.
    fn crypter(&self) -> Result<Crypter, SecretsError> {
        self.context.crypter(self.file.salt().unwrap_or_default())
    }

    fn get(&self, key: &str, path: bool, as_json: bool) -> anyhow::Result<()> {
        let (name, steps) = self.key(key, path)?;
        let missing = || {
            format!(
                "configuration key '{key}' not found for stack '{}'",
                self.stack.name
            )
        };
        let mut stored = self.stored(&name)?.with_context(missing)?;
        for step in &steps {
            let inner = match step {
                pulumi_yaml::access::Accessor::Index(index) => stored.get(index),
                other => stored.get(other.key().unwrap_or_default()),
            };
            stored = inner.cloned().with_context(missing)?;
        }
        let text = if as_json {
            pretty(&entry(&stored, true, &|| self.crypter())?)?
        } else {
            value::as_text(&value::opened(&stored, &|| self.crypter())?)
        };
        Ok(display::line(&text)?)
    }

    fn list(&self, as_json: bool, show_secrets: bool) -> anyhow::Result<()> {
        let mut values = BTreeMap::new();
        for (key, stored) in self.file.entries(self.project())? {
            let entry = entry(&stored, show_secrets, &|| self.crypter())?;
            values.insert(key.to_string(), (entry, stored));
        }
        if as_json {
            let entries = values.iter().map(|(key, (entry, _))| (key, entry));
            let entries: BTreeMap<_, _> = entries.collect();
            return Ok(display::line(&pretty(&entries)?)?);
        }
        let mut table = vec![["KEY", "VALUE"].map(ToOwned::to_owned)];
        let own = format!("{}:", self.project());
        for (key, (entry, stored)) in values {
            let blinded = || value::as_text(&value::blinded(&stored, BLINDED));
            let key = key.strip_prefix(&own).unwrap_or(&key).to_owned();
            table.push([key, entry.value.unwrap_or_else(blinded)]);
        }
        Ok(display::table("", &table)?)
    }
}

/// A value of `config --json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_value: Option<Value>,
    secret: bool,
}

pub(super) fn entry(
    stored: &Value,
    show_secrets: bool,
    crypter: &impl Fn() -> Result<Crypter, SecretsError>,
) -> anyhow::Result<ConfigEntry> {
    let secret = value::is_secret(stored);
    if secret && !show_secrets {
        return Ok(ConfigEntry {
            value: None,
            object_value: None,
            secret,
        });
    }
    let opened = value::opened(stored, crypter)?;
    Ok(ConfigEntry {
        value: Some(value::as_text(&opened)),
        object_value: Some(opened).filter(|value| value.is_object() || value.is_array()),
        secret,
    })
}
