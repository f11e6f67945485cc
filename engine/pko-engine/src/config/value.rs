//! Config values in the stack's file: plain, or `{secure: <ciphertext>}`.

use serde_json::{Map, Value, json};

use pulumi_engine_state::secrets::{Crypter, SecretsError};
use pulumi_yaml::{access::Accessor, text};

const SECURE: &str = "secure";

/// A path that does not match the value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PathError(String);

#[must_use]
pub(crate) fn sealed(ciphertext: &str) -> Value {
    json!({ SECURE: ciphertext })
}

/// Whether any part is encrypted.
#[must_use]
pub(crate) fn is_secret(value: &Value) -> bool {
    match value {
        Value::Object(entries) => ciphertext(entries).is_some() || entries.values().any(is_secret),
        Value::Array(values) => values.iter().any(is_secret),
        _ => false,
    }
}

fn ciphertext(entries: &Map<String, Value>) -> Option<&str> {
    if entries.len() == 1 {
        entries.get(SECURE)?.as_str()
    } else {
        None
    }
}

/// Whether it is a list or a map. An encrypted value is a string.
#[must_use]
pub(crate) fn is_structured(value: &Value) -> bool {
    match value {
        Value::Object(entries) => ciphertext(entries).is_none(),
        value => value.is_array(),
    }
}

/// The value with placeholders for encrypted parts.
#[must_use]
pub(crate) fn blinded(value: &Value, word: &str) -> Value {
    let inner = |value: &Value| blinded(value, word);
    match value {
        Value::Object(entries) if ciphertext(entries).is_some() => Value::from(word),
        Value::Object(entries) => {
            let entries = entries.iter();
            Value::Object(
                entries
                    .map(|(key, value)| (key.clone(), inner(value)))
                    .collect(),
            )
        }
        Value::Array(values) => Value::Array(values.iter().map(inner).collect()),
        plain => plain.clone(),
    }
}

/// Decrypts all parts.
pub(crate) fn opened(
    value: &Value,
    crypter: &impl Fn() -> Result<Crypter, SecretsError>,
) -> Result<Value, SecretsError> {
    Ok(match value {
        Value::Object(entries) => match ciphertext(entries) {
            Some(sealed) => Value::String(crypter()?.decrypt(sealed)?),
            None => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| Ok((key.clone(), opened(value, crypter)?)))
                    .collect::<Result<_, SecretsError>>()?,
            ),
        },
        Value::Array(values) => Value::Array(
            values
                .iter()
                .map(|value| opened(value, crypter))
                .collect::<Result<_, _>>()?,
        ),
        plain => plain.clone(),
    })
}

/// The string for the program: scalars as written, anything else as JSON.
#[must_use]
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => text::number(number),
        other => other.to_string(),
    }
}

/// Parses the value at a path: booleans and integers are typed.
#[must_use]
pub(crate) fn coerced(text: &str) -> Value {
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ if text.len() > 1 && text.starts_with('0') => Value::String(text.to_owned()),
        _ => text
            .parse::<i64>()
            .map_or_else(|_| Value::String(text.to_owned()), Value::from),
    }
}

/// Sets the value at a path, and creates lists and maps on the way.
pub(crate) fn set(root: &mut Value, steps: &[Accessor], value: Value) -> Result<(), PathError> {
    let Some((step, rest)) = steps.split_first() else {
        *root = value;
        return Ok(());
    };
    match step {
        Accessor::Index(index) => {
            if root.is_null() {
                *root = json!([]);
            }
            let Value::Array(values) = root else {
                return Err(PathError(format!(
                    "cannot set index {index} of what is no list"
                )));
            };
            if *index == values.len() {
                values.push(Value::Null);
            }
            let length = values.len();
            let element = values.get_mut(*index).ok_or_else(|| {
                PathError(format!(
                    "array index out of range: {index}, and the list has {length} elements"
                ))
            })?;
            set(element, rest, value)
        }
        Accessor::Name(key) | Accessor::Key(key) => {
            if root.is_null() {
                *root = json!({});
            }
            match root {
                Value::Object(entries) if ciphertext(entries).is_none() => {
                    set(entries.entry(key).or_insert(Value::Null), rest, value)
                }
                _ => Err(PathError(format!("cannot set {key:?} of what is no map"))),
            }
        }
    }
}

/// Removes the value at a path.
pub(crate) fn remove(root: &mut Value, steps: &[Accessor]) {
    let Some((last, way)) = steps.split_last() else {
        return;
    };
    let mut parent = root;
    for step in way {
        let next = match step {
            Accessor::Index(index) => parent.get_mut(index),
            Accessor::Name(key) | Accessor::Key(key) => parent.get_mut(key),
        };
        match next {
            Some(next) => parent = next,
            None => return,
        }
    }
    match (last, parent) {
        (Accessor::Index(index), Value::Array(values)) if *index < values.len() => {
            values.remove(*index);
        }
        (Accessor::Name(key) | Accessor::Key(key), Value::Object(entries)) => {
            entries.remove(key);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulumi_yaml::access::parse_path;

    #[test]
    fn config_value_set_creates_parents() {
        let mut value = Value::Null;
        for (path, text) in [("o.name", "x"), ("o.list[0]", "1"), ("o.list[1]", "02")] {
            set(&mut value, &parse_path(path).unwrap().steps, coerced(text)).unwrap();
        }
        assert_eq!(value, json!({"name": "x", "list": [1, "02"]}));
        let error = set(
            &mut value,
            &parse_path("o.list[5]").unwrap().steps,
            json!(1),
        )
        .unwrap_err();
        assert!(error.to_string().contains("out of range"), "{error}");
        assert!(
            set(
                &mut value,
                &parse_path("o.name.deep").unwrap().steps,
                json!(1)
            )
            .is_err()
        );
        remove(&mut value, &parse_path("o.list[0]").unwrap().steps);
        remove(&mut value, &parse_path("o.nosuch.deep").unwrap().steps);
        assert_eq!(value, json!({"name": "x", "list": ["02"]}));
    }

    #[test]
    fn config_value_finds_encrypted_parts() {
        assert!(is_secret(&json!({"a": [{"secure": "v1:x:y"}]})));
        assert!(!is_secret(&json!({"secure": "x", "other": 1})));
        assert_eq!(as_text(&json!({"a": [1, true]})), r#"{"a":[1,true]}"#);
        assert_eq!(as_text(&json!(true)), "true");
    }
}
