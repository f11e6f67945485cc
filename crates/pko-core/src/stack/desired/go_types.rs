//! What Go's types leave out: a user's `hostNetwork: false` says nothing, and is not stored. The table is of Kubernetes' own
//! types; a test asks them field by field whether it is right.

use std::{collections::HashMap, sync::LazyLock};

use pko_api::JsonObject;
use serde_json::Value;

/// The fields of each type.
static TYPES: LazyLock<HashMap<&'static str, Vec<GoField>>> =
    LazyLock::new(|| parse(include_str!("go_types.txt")));

/// A field that is not written in each case, or in which there are such fields.
struct GoField {
    name: &'static str,
    /// It is left out where it is zero or empty.
    is_omitted: bool,
    /// Of the object, or of the items of the list; nothing for plain values.
    kind: &'static str,
}

fn parse(table: &'static str) -> HashMap<&'static str, Vec<GoField>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let types = lines.filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.filter_map(field).collect()))
    });
    types.collect()
}

fn field(word: &'static str) -> Option<GoField> {
    let forms = [
        ("=", true),
        ("[]", true),
        ("{}", true),
        ("*", false),
        (":", false),
    ];
    forms.iter().find_map(|(sign, is_omitted)| {
        let (name, kind) = word.split_once(sign)?;
        Some(GoField {
            name,
            is_omitted: *is_omitted,
            kind,
        })
    })
}

/// Takes away what an object of this type of Go's does not write.
pub(super) fn trim(object: &mut JsonObject, kind: &str) {
    for field in TYPES.get(kind).into_iter().flatten() {
        let Some(value) = object.get_mut(field.name) else {
            continue;
        };
        if field.is_omitted && is_zero(value) {
            object.remove(field.name);
            continue;
        }
        match value {
            Value::Object(inner) => trim(inner, field.kind),
            Value::Array(items) => {
                let items = items.iter_mut().filter_map(Value::as_object_mut);
                items.for_each(|item| trim(item, field.kind));
            }
            _ => {}
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
