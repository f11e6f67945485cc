//! Values of resource properties and stack outputs.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Number, Value, json};

/// Key that marks special values in Pulumi's JSON.
pub const SIGNATURE_KEY: &str = "4dabf18193072939515e22adb298388d";
/// Value of [`SIGNATURE_KEY`] for secrets.
pub const SECRET_SIGNATURE: &str = "1b47061264138c4ac30d75fd1eb44270";
/// Value of [`SIGNATURE_KEY`] for assets, which are held as maps.
pub const ASSET_SIGNATURE: &str = "c44067f5952c0a294b673a41bacd8c17";
/// Value of [`SIGNATURE_KEY`] for archives, which are held as maps.
pub const ARCHIVE_SIGNATURE: &str = "0def7320c3a5731c473e5ecbe6d01bc7";
/// Value of [`SIGNATURE_KEY`] for resources as values, which are held as maps.
pub const RESOURCE_SIGNATURE: &str = "5cf8f73096256a8f31e491e813e4eb8e";
/// Placeholder of an unknown value.
pub const UNKNOWN: &str = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";
/// Placeholder of a secret.
pub const BLINDED: &str = "[secret]";

/// Named properties, in the order Pulumi writes them.
pub type Properties = BTreeMap<String, Property>;

/// One value. `Debug` hides secrets.
#[derive(Clone, PartialEq)]
pub enum Property {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// Any number; integers keep all their digits
    Number(Number),
    String(String),
    List(Vec<Property>),
    /// A map
    Object(Properties),
    Secret(Box<Property>),
    /// A value that a preview cannot know
    Unknown,
}

impl Property {
    /// Converts from JSON without signatures.
    #[must_use]
    pub fn from_json(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(value) => Self::Number(value),
            Value::String(value) => Self::String(value),
            Value::Array(values) => Self::List(values.into_iter().map(Self::from_json).collect()),
            Value::Object(entries) => Self::Object(
                entries
                    .into_iter()
                    .map(|(key, value)| (key, Self::from_json(value)))
                    .collect(),
            ),
        }
    }

    /// Converts to JSON, with secrets replaced by `secret(path to it, its value)`.
    pub fn to_json_with<E>(
        &self,
        path: &str,
        secret: &mut impl FnMut(&str, &Self) -> Result<Value, E>,
    ) -> Result<Value, E> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(value) => Value::Number(value.clone()),
            Self::String(value) => Value::String(value.clone()),
            Self::List(values) => Value::Array(
                values
                    .iter()
                    .enumerate()
                    .map(|(index, value)| value.to_json_with(&format!("{path}/{index}"), secret))
                    .collect::<Result<_, _>>()?,
            ),
            Self::Object(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| {
                        Ok((
                            key.clone(),
                            value.to_json_with(&format!("{path}/{key}"), secret)?,
                        ))
                    })
                    .collect::<Result<Map<_, _>, E>>()?,
            ),
            Self::Secret(inner) => secret(path, inner)?,
            Self::Unknown => Value::String(UNKNOWN.to_owned()),
        })
    }

    /// Converts to JSON with secrets in clear, for `--show-secrets` and the like.
    #[must_use]
    pub fn revealed(&self) -> Value {
        let Ok(value) =
            self.to_json_with::<std::convert::Infallible>("", &mut |_, inner| Ok(inner.revealed()));
        value
    }

    /// Converts to JSON for event logs: each secret is a placeholder.
    #[must_use]
    pub fn blinded(&self) -> Value {
        let Ok(value) = self.to_json_with::<std::convert::Infallible>("", &mut |_, _| {
            Ok(json!({ SIGNATURE_KEY: SECRET_SIGNATURE, "ciphertext": BLINDED }))
        });
        value
    }

    /// Converts to JSON for display: a value with a secret in it is one placeholder.
    #[must_use]
    pub fn shown(&self) -> Value {
        if self.contains_secret() {
            Value::String(BLINDED.to_owned())
        } else {
            self.revealed()
        }
    }

    /// Whether this value is or contains a secret.
    #[must_use]
    pub fn contains_secret(&self) -> bool {
        match self {
            Self::Secret(_) => true,
            Self::List(values) => values.iter().any(Self::contains_secret),
            Self::Object(entries) => entries.values().any(Self::contains_secret),
            _ => false,
        }
    }

    /// Whether this value is or contains an unknown one.
    #[must_use]
    pub fn contains_unknown(&self) -> bool {
        match self {
            Self::Unknown => true,
            Self::Secret(inner) => inner.contains_unknown(),
            Self::List(values) => values.iter().any(Self::contains_unknown),
            Self::Object(entries) => entries.values().any(Self::contains_unknown),
            _ => false,
        }
    }

    /// The value with secrets in clear, and whether it had any.
    #[must_use]
    pub fn opened(&self) -> (Self, bool) {
        (self.without_secrets(), self.contains_secret())
    }

    fn without_secrets(&self) -> Self {
        match self {
            Self::Secret(inner) => inner.without_secrets(),
            Self::List(values) => Self::List(values.iter().map(Self::without_secrets).collect()),
            Self::Object(entries) => Self::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.clone(), value.without_secrets()))
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    /// Marks the value as secret, unless it is one.
    #[must_use]
    pub fn into_secret(self) -> Self {
        match self {
            Self::Secret(_) => self,
            other => Self::Secret(Box::new(other)),
        }
    }
}

impl fmt::Debug for Property {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("null"),
            Self::Bool(value) => write!(formatter, "{value}"),
            Self::Number(value) => write!(formatter, "{value}"),
            Self::String(value) => write!(formatter, "{value:?}"),
            Self::List(values) => formatter.debug_list().entries(values).finish(),
            Self::Object(entries) => formatter.debug_map().entries(entries).finish(),
            Self::Secret(_) => formatter.write_str(BLINDED),
            Self::Unknown => formatter.write_str("[unknown]"),
        }
    }
}

/// Properties as JSON for event logs.
#[must_use]
pub fn blinded(properties: &Properties) -> Value {
    Value::Object(
        properties
            .iter()
            .map(|(key, value)| (key.clone(), value.blinded()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_hidden_unless_revealed() {
        let value = Property::Object(BTreeMap::from([
            ("open".into(), Property::from_json(json!([1, "x"]))),
            (
                "closed".into(),
                Property::String("hush".into()).into_secret(),
            ),
        ]));
        assert_eq!(
            format!("{value:?}"),
            r#"{"closed": [secret], "open": [1, "x"]}"#
        );
        assert_eq!(value.shown(), json!("[secret]"));
        assert_eq!(
            value.revealed(),
            json!({"open": [1, "x"], "closed": "hush"})
        );
        assert_eq!(value.blinded()["closed"]["ciphertext"], json!("[secret]"));
        assert_eq!(value.blinded()["open"], json!([1, "x"]));
    }

    #[test]
    fn property_large_integer_keeps_digits() {
        let text = "9007199254740993";
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(Property::from_json(value).revealed().to_string(), text);
    }
}
