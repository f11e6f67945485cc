//! A stack's configuration, in `Pulumi.<stack>.yaml`.

use std::{collections::BTreeMap, env, fs, io::Read, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    config_path::{self, Part},
    is_cloud, passphrase, print_json,
    program::Program,
    stacks::named,
    state::State,
    values::Output,
    yaml,
};
use crate::{
    outcome::{Outcome, Refusal},
    player::Scene,
};

/// A stack's configuration file.
#[derive(Debug)]
pub(super) struct StackFile {
    path: PathBuf,
    contents: Map<String, Value>,
}

impl StackFile {
    pub(super) fn path(stack: &str) -> Outcome<PathBuf> {
        Ok(env::current_dir()?.join(format!("Pulumi.{stack}.yaml")))
    }

    /// The file, empty if there is none.
    pub(super) fn load(stack: &str) -> Outcome<Self> {
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

    /// What is not configuration comes first, as the CLI writes it.
    pub(super) fn save(&self) -> Outcome<()> {
        let (configuration, others): (Vec<_>, Vec<_>) =
            self.contents.iter().partition(|(key, _)| *key == "config");
        let entries = others.into_iter().chain(configuration);
        let text: String = entries
            .map(|(key, value)| yaml::entry(key, value, 0))
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

    /// What the configuration is, decrypted; by full key.
    pub(super) fn values(&mut self) -> Outcome<BTreeMap<String, Output>> {
        let entries = self.configuration().iter();
        let value = |(key, value): (&String, &Value)| Ok((key.clone(), decrypted(value)?));
        entries.map(value).collect()
    }
}

/// A secret anywhere makes the whole one.
fn decrypted(value: &Value) -> Outcome<Output> {
    if let Some(secure) = value.get("secure").and_then(Value::as_str) {
        let value = Value::from(passphrase::decrypt(secure)?);
        return Ok(Output {
            value,
            secret: true,
        });
    }
    let mut secret = false;
    let mut inner = |value: &Value| -> Outcome<Value> {
        let output = decrypted(value)?;
        secret |= output.secret;
        Ok(output.value)
    };
    let value = match value {
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| Ok((key.clone(), inner(value)?)));
            Value::Object(entries.collect::<Outcome<_>>()?)
        }
        Value::Array(items) => Value::Array(items.iter().map(inner).collect::<Outcome<_>>()?),
        other => other.clone(),
    };
    Ok(Output { value, secret })
}

/// One thing to set.
struct Setting {
    key: String,
    path: bool,
    secret: bool,
    text: String,
    /// What to write instead of the text.
    object: Option<Value>,
}

impl Setting {
    fn apply(self, project: &str, file: &mut StackFile) -> Outcome<()> {
        let (namespace, name) = match self.key.split_once(':') {
            Some((namespace, name)) => (namespace.to_owned(), name),
            None => (project.to_owned(), self.key.as_str()),
        };
        let mut parts = if self.path {
            config_path::parse(name)?
        } else {
            vec![Part::Key(name.to_owned())]
        };
        let inside = parts.len() > 1;
        let value = self.value(inside);
        if let Some(Part::Key(first)) = parts.first_mut() {
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
fn apply(scene: &Scene, settings: Vec<Setting>) -> Outcome<()> {
    let project = Program::load()?.name;
    let name = named(scene, &project)?;
    let mut state = State::read(&scene.folder)?;
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

pub(super) fn set(scene: &Scene) -> Outcome<()> {
    let line = &scene.line;
    let text = match line.nth(3) {
        Some(value) => value.to_owned(),
        None => standard_input(scene)?,
    };
    let setting = Setting {
        key: line.nth(2).ok_or("a value needs a key")?.to_owned(),
        path: line.has("--path"),
        secret: line.has("--secret"),
        text,
        object: None,
    };
    apply(scene, vec![setting])
}

/// Without one line end.
fn standard_input(scene: &Scene) -> Outcome<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    scene.recorder.input(&text)?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

pub(super) fn set_all(scene: &Scene) -> Outcome<()> {
    let settings = match scene.line.value("--json") {
        Some(document) => document_settings(document)?,
        None => pair_settings(scene)?,
    };
    apply(scene, settings)
}

fn pair_settings(scene: &Scene) -> Outcome<Vec<Setting>> {
    let path = scene.line.has("--path");
    let flags = scene.line.flags().iter();
    let pairs = flags.filter(|(name, _)| name == "--plaintext" || name == "--secret");
    let setting = |(name, pair): &(String, String)| {
        let (key, text) = pair.split_once('=').ok_or("a pair has a =")?;
        Ok(Setting {
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
struct Entry {
    value: String,
    object_value: Option<Value>,
    #[serde(default)]
    secret: bool,
}

fn document_settings(document: &str) -> Outcome<Vec<Setting>> {
    let entries: BTreeMap<String, Entry> = serde_json::from_str(document)?;
    let setting = |(key, entry): (String, Entry)| {
        if entry.secret && entry.object_value.is_some() {
            let text = "invalid character 'v' looking for beginning of value";
            return Refusal::problem(1, text);
        }
        Ok(Setting {
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

pub(super) fn remove(scene: &Scene) -> Outcome<()> {
    let project = Program::load()?.name;
    let name = named(scene, &project)?;
    State::read(&scene.folder)?.stack(&name)?;
    let mut file = StackFile::load(&name.stack)?;
    let key = scene.line.nth(2).unwrap_or_default();
    file.configuration().remove(key);
    file.save()
}

pub(super) fn add_environments(scene: &Scene) -> Outcome<()> {
    let name = named(scene, &Program::load()?.name)?;
    State::read(&scene.folder)?.stack(&name)?;
    if !is_cloud() {
        return Refusal::problem(
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
    let added = (3..).map_while(|index| scene.line.nth(index));
    all.extend(added.map(Value::from));
    file.set("environment", all);
    file.save()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_value: Option<Value>,
    secret: bool,
}

pub(super) fn show(scene: &Scene) -> Outcome<()> {
    let name = named(scene, &Program::load()?.name)?;
    let mut state = State::read(&scene.folder)?;
    let stack = state.stack(&name)?;
    let values = StackFile::load(&name.stack)?.values()?;
    if values.values().any(|output| output.secret) {
        passphrase::check(stack, "")?;
    }
    let shown = values.into_iter().map(|(key, output)| (key, shown(output)));
    print_json(&shown.collect::<BTreeMap<_, _>>())
}

fn shown(output: Output) -> Shown {
    let structured = output.value.is_object() || output.value.is_array();
    Shown {
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
