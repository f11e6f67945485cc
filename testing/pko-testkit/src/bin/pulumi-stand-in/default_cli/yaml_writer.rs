//! Writes JSON values as YAML in block style.

use serde_json::{Map, Value};

/// The entries of a mapping, one after the other.
pub(super) fn entries(map: &Map<String, Value>, indent: usize) -> String {
    let lines = map
        .iter()
        .map(|(key, value)| entry(&scalar(key), value, indent));
    lines.collect()
}

/// One entry of a mapping.
pub(super) fn entry(key: &str, value: &Value, indent: usize) -> String {
    let space = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            format!("{space}{key}:\n{}", entries(map, indent + 2))
        }
        Value::Array(items) if !items.is_empty() => {
            format!("{space}{key}:\n{}", elements(items, indent + 2))
        }
        Value::String(text) => format!("{space}{key}: {}\n", scalar(text)),
        other => format!("{space}{key}: {other}\n"),
    }
}

/// Inner structures in flow style, which is YAML as well.
fn elements(items: &[Value], indent: usize) -> String {
    let space = " ".repeat(indent);
    let line = |item: &Value| match item {
        Value::String(text) => format!("{space}- {}\n", scalar(text)),
        other => format!("{space}- {other}\n"),
    };
    items.iter().map(line).collect()
}

/// In quotes if it would be something else without.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 8] = ["true", "false", "null", "yes", "no", "on", "off", "y"];
    let plain = |character: char| character.is_ascii_alphanumeric() || "_./:-".contains(character);
    let harmless = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(plain)
        && !text.ends_with(':')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if harmless {
        return text.to_owned();
    }
    Value::from(text).to_string()
}
