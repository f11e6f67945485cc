//! Fields that Go's types omit: `hostNetwork: false` has no effect and is not stored. The table
//! describes Kubernetes' own types; a test compares it with them field by field.

use std::{collections::HashMap, sync::LazyLock};

use pko_api::JsonObject;
use serde_json::Value;

/// The fields of each type.
static TYPES: LazyLock<HashMap<&'static str, Vec<GoField>>> =
    LazyLock::new(|| parse(include_str!("go_types.txt")));

/// A field that may be omitted, or whose value may have omitted fields.
struct GoField {
    name: &'static str,
    /// It is omitted if it is zero or empty.
    is_omitted: bool,
    /// The type of the object or of the list's items; empty for plain values.
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

/// Removes the fields that this Go type omits.
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
