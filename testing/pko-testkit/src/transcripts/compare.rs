//! The parts of a call's events and config that are the same each time. A missing file counts as
//! empty.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// The kinds of events, sorted: steps of independent resources have no fixed order.
/// Debugging texts and steps of providers are a CLI's own business.
pub(super) fn events(file: &Path) -> String {
    let text = text(file);
    let mut shapes: Vec<String> = text.lines().filter_map(event).collect();
    shapes.sort();
    shapes.join("\n")
}

fn event(line: &str) -> Option<String> {
    let Ok(event) = serde_json::from_str::<BTreeMap<String, Value>>(line) else {
        return Some(format!("no event: {line}"));
    };
    let (kind, payload) = event.iter().find(|(key, _)| key.ends_with("Event"))?;
    let metadata = &payload["metadata"];
    let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
    if kind == "diagnosticEvent" || text("type").starts_with("pulumi:providers:") {
        return None;
    }
    let outputs = match (kind.as_str(), text("type").as_str()) {
        ("resOutputsEvent", "pulumi:pulumi:Stack") => {
            metadata.pointer("/new/outputs").map(Value::to_string)
        }
        _ => None,
    };
    let summary = (
        &payload["resourceChanges"],
        &payload["isPreview"],
        &payload["result"],
    );
    let planning = &payload["planning"];
    Some(format!(
        "{kind} {} {} {planning} {summary:?} {outputs:?}",
        text("op"),
        text("urn")
    ))
}

/// A config file without encrypted values.
pub(super) fn configuration(file: &Path) -> String {
    let text = text(file);
    let mut value: Value = match serde_saphyr::from_str(&text) {
        Ok(value) => value,
        Err(error) => return format!("no config: {error}: {text}"),
    };
    if let Some(salt) = value.get_mut("encryptionsalt") {
        *salt = Value::from("a salt");
    }
    if let Some(entries) = value.get_mut("config").and_then(Value::as_object_mut) {
        for entry in entries.values_mut() {
            *entry = match &*entry {
                Value::Object(map) if map.contains_key("secure") => Value::from("a secret"),
                // The CLI rewrites them as text when it next writes the file
                Value::Bool(_) | Value::Number(_) => Value::from(entry.to_string()),
                other => other.clone(),
            };
        }
    }
    value.to_string()
}
