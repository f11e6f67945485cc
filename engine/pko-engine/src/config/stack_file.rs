//! `Pulumi.<stack>.yaml`: config values, salt and secrets provider of a stack.

use std::{io, path::PathBuf};

use pulumi_engine_state::file;
use pulumi_yaml::syntax::{self, Node, SyntaxError};
use serde_json::Value;

use super::{document, key::Key};

#[derive(Debug, thiserror::Error)]
pub(crate) enum StackFileError {
    /// The file system failed.
    #[error("failed to access the stack's config file")]
    Access(#[from] io::Error),
    /// Malformed YAML.
    #[error("could not unmarshal '{path}': invalid YAML file: {source}", path = .path.display())]
    Malformed { path: PathBuf, source: SyntaxError },
    /// A malformed key.
    #[error(transparent)]
    Key(#[from] super::key::KeyError),
}

/// The file of one stack, which may not exist.
#[derive(Debug, Clone)]
pub(crate) struct StackFile {
    path: PathBuf,
    text: String,
    root: Node,
}

impl StackFile {
    /// Reads the file.
    pub(crate) fn load(path: PathBuf) -> Result<Self, StackFileError> {
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let root = parse(&path, &text)?;
        Ok(Self { path, text, root })
    }

    /// Writes the file.
    pub(crate) fn save(&self) -> Result<(), StackFileError> {
        Ok(file::write_whole(&self.path, self.text.as_bytes())?)
    }

    /// Removes the file.
    pub(crate) fn remove(&self) -> Result<(), StackFileError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn top(&self, key: &str) -> Option<&str> {
        self.root
            .get(key)
            .and_then(Node::as_str)
            .filter(|text| !text.is_empty())
    }

    /// State of the passphrase provider.
    #[must_use]
    pub(crate) fn salt(&self) -> Option<&str> {
        self.top("encryptionsalt")
    }

    /// The secrets provider, if it is not the default.
    #[must_use]
    pub(crate) fn secrets_provider(&self) -> Option<&str> {
        self.top("secretsprovider")
    }

    /// Whether the stack has environments of Pulumi ESC.
    #[must_use]
    pub(crate) fn has_environment(&self) -> bool {
        match self.root.get("environment").map(Node::to_json) {
            None | Some(Value::Null) => false,
            Some(Value::Array(values)) => !values.is_empty(),
            Some(_) => true,
        }
    }

    /// Config values in the order of the file.
    pub(crate) fn entries(&self, project: &str) -> Result<Vec<(Key, Value)>, StackFileError> {
        self.raw_entries()
            .into_iter()
            .map(|(key, value)| Ok((Key::parse(&key, project)?, value)))
            .collect()
    }

    fn raw_entries(&self) -> Vec<(String, Value)> {
        let config = self
            .root
            .get("config")
            .and_then(Node::entries)
            .unwrap_or_default();
        config
            .iter()
            .map(|(key, value)| (key.scalar_text(), value.to_json()))
            .collect()
    }

    /// The notation of a key in the file, if it has the key.
    fn spelling(&self, key: &Key) -> String {
        let spelled = |(name, _): &(String, Value)| {
            Key::parse(name, &key.namespace).is_ok_and(|other| other == *key)
        };
        self.raw_entries()
            .into_iter()
            .find(spelled)
            .map_or_else(|| key.to_string(), |(name, _)| name)
    }

    /// Sets a config value.
    pub(crate) fn set(&mut self, key: &Key, value: &Value) -> Result<(), StackFileError> {
        let entries = self.raw_entries();
        let edited = document::set_in(&self.text, "config", &entries, &self.spelling(key), value);
        self.replace(edited)
    }

    /// Removes a config value.
    pub(crate) fn unset(&mut self, key: &Key) -> Result<(), StackFileError> {
        let entries = self.raw_entries();
        let edited = document::remove_in(&self.text, "config", &entries, &self.spelling(key));
        self.replace(edited)
    }

    pub(crate) fn set_salt(&mut self, salt: &str) -> Result<(), StackFileError> {
        let value = Value::String(salt.to_owned());
        self.replace(document::set_top(&self.text, "encryptionsalt", &value))
    }

    fn replace(&mut self, text: String) -> Result<(), StackFileError> {
        self.root = parse(&self.path, &text)?;
        self.text = text;
        Ok(())
    }
}

fn parse(path: &std::path::Path, text: &str) -> Result<Node, StackFileError> {
    syntax::parse(text).map_err(|source| StackFileError::Malformed {
        path: path.to_owned(),
        source,
    })
}
