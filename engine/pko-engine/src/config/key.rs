//! Keys of config values.

use std::fmt;

use pulumi_yaml::access::{self, Accessor};

/// `<namespace>:<name>`. The namespace is usually the project.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// Project or package.
    pub namespace: String,
    /// Name within it.
    pub name: String,
}

/// A malformed key.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    /// Without name and namespace.
    #[error(
        "invalid configuration key: could not parse {0} as a configuration key (configuration keys should be of the form `<namespace>:<name>`)"
    )]
    Name(String),
    /// A malformed path.
    #[error("invalid config key path: {0}")]
    Path(String),
}

impl Key {
    /// Parses a key. The default namespace is the project.
    pub(crate) fn parse(text: &str, project: &str) -> Result<Self, KeyError> {
        let parts: Vec<_> = text.splitn(3, ':').collect();
        let (namespace, name) = match parts.as_slice() {
            [name] => (project, *name),
            [namespace, name] | [namespace, "config", name] => (*namespace, *name),
            _ => return Err(KeyError::Name(text.to_owned())),
        };
        if namespace.is_empty() || name.is_empty() {
            return Err(KeyError::Name(text.to_owned()));
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    /// Parses a key whose name is a path.
    pub(crate) fn parse_path(text: &str, project: &str) -> Result<(Self, Vec<Accessor>), KeyError> {
        let key = Self::parse(text, project)?;
        let access =
            access::parse_path(&key.name).map_err(|error| KeyError::Path(error.to_string()))?;
        Ok((
            Self {
                namespace: key.namespace,
                name: access.root,
            },
            access.steps,
        ))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_key_has_namespace() {
        for (text, expected) in [
            ("size", Some("demo:size")),
            ("aws:region", Some("aws:region")),
            ("aws:config:region", Some("aws:region")),
            ("a:b:c", None),
            (":x", None),
            ("", None),
        ] {
            let key = Key::parse(text, "demo").ok().map(|key| key.to_string());
            assert_eq!(key.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn config_key_parses_path() {
        let (key, steps) = Key::parse_path("demo:[\"greeting\"]", "p").unwrap();
        assert_eq!(
            (key.to_string().as_str(), steps.len()),
            ("demo:greeting", 0)
        );
        let (key, steps) = Key::parse_path("o.list[1]", "demo").unwrap();
        assert_eq!(key.to_string(), "demo:o");
        assert_eq!(steps, [Accessor::Name("list".into()), Accessor::Index(1)]);
    }
}
