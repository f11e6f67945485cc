//! Config keys that are paths: `outer.inner`, `list[0]`, `["a.b"]`.

use serde_json::{Map, Value};

use crate::cli_error::{CliError, CliResult};

/// One step into a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathSegment {
    Key(String),
    Index(usize),
}

pub(super) fn parse(path: &str) -> CliResult<Vec<PathSegment>> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let (part, after) = match rest.strip_prefix('[') {
            Some(inner) => bracket(inner)?,
            None => word(rest.strip_prefix('.').unwrap_or(rest)),
        };
        parts.push(part);
        rest = after;
    }
    Ok(parts)
}

fn word(text: &str) -> (PathSegment, &str) {
    let end = text.find(['.', '[']).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (PathSegment::Key(word.to_owned()), rest)
}

fn bracket(text: &str) -> CliResult<(PathSegment, &str)> {
    let refused = |text: &str| CliError::result(1, format!("invalid config key path: {text}"));
    if text.starts_with('"') {
        let mut quoted = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let Some(Ok(key)) = quoted.next() else {
            return refused("missing closing quote in property name");
        };
        let rest = text.get(quoted.byte_offset()..).unwrap_or_default();
        return match rest.strip_prefix(']') {
            Some(rest) => Ok((PathSegment::Key(key), rest)),
            None => refused("missing closing bracket in property access"),
        };
    }
    let Some((index, rest)) = text.split_once(']') else {
        return refused("missing closing bracket in list index");
    };
    match index.parse() {
        Ok(index) => Ok((PathSegment::Index(index), rest)),
        Err(_) => refused("invalid list index"),
    }
}

/// Sets the value at a path. Missing parents are created.
pub(super) fn set(place: &mut Value, path: &[PathSegment], value: Value) -> CliResult<()> {
    let Some((first, rest)) = path.split_first() else {
        *place = value;
        return Ok(());
    };
    let inner = match first {
        PathSegment::Key(key) => {
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            let map = place.as_object_mut().ok_or("it was just made")?;
            map.entry(key.clone()).or_insert(Value::Null)
        }
        PathSegment::Index(index) => {
            if !place.is_array() {
                *place = Value::Array(Vec::new());
            }
            element(place, *index)?
        }
    };
    set(inner, rest, value)
}

/// A list grows by one element at a time.
fn element(place: &mut Value, index: usize) -> CliResult<&mut Value> {
    let list = place.as_array_mut().ok_or("it was just made")?;
    if index > list.len() {
        return CliError::result(1, "array index out of range");
    }
    if index == list.len() {
        list.push(Value::Null);
    }
    list.get_mut(index).ok_or_else(|| "it was just made".into())
}

/// Inside of a structure, booleans and integers are recognized.
pub(super) fn leaf(text: &str) -> Value {
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ if text == "0" || !text.starts_with('0') => {
            text.parse::<i64>().map_or(Value::from(text), Value::from)
        }
        _ => Value::from(text),
    }
}
