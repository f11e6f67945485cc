//! The text that the CLI prints for an operation.

use std::{collections::BTreeSet, fmt::Write as _};

use serde_json::{Map, Value};

use super::{
    events::{ROOT, STASH},
    operations::ResourceChange,
    outputs::{self, Outputs},
    state_file::ResourceState,
};

/// The kinds of changes in display order, with sign, past and future
/// wording.
const KINDS: [(&str, &str, &str, &str); 3] = [
    ("create", "+ ", "created", "to create"),
    ("update", "~ ", "updated", "to update"),
    ("delete", "- ", "deleted", "to delete"),
];

/// The stack itself and what changed in it.
pub(super) fn root(operation: &str, urn: &str) -> String {
    let sign = sign(operation);
    format!("{sign}{ROOT}: ({operation})\n    [urn={urn}]\n")
}

pub(super) fn change(change: &ResourceChange, urn: &str, planning: bool) -> String {
    let operation = change.operation;
    let mut text = format!("    {}{STASH}: ({operation})\n", sign(operation));
    if let Some(old) = &change.old {
        let _ = writeln!(text, "        [id={}]", old.id);
    }
    let _ = writeln!(text, "        [urn={urn}]");
    text + &match (&change.old, &change.new) {
        (None, Some(new)) => creation_text(new, planning),
        (Some(old), Some(new)) => {
            let (old, new) = (value(&old.input, 8), value(&new.input, 8));
            format!("      ~ input: {old} => {new}\n")
        }
        (Some(old), None) => deletion_text(old),
        (None, None) => String::new(),
    }
}

fn creation_text(new: &ResourceState, planning: bool) -> String {
    let input = format!("        input: {}\n", value(&new.input, 8));
    if planning {
        return input;
    }
    let output = value(&new.output, 8);
    format!("{input}        --outputs:--\n        output: {output}\n")
}

fn deletion_text(old: &ResourceState) -> String {
    let (input, output) = (value(&old.input, 8), value(&old.output, 8));
    format!(
        "        input: {input}\n        --outputs:--\n      - input : {input}\n      - output: {output}\n"
    )
}

/// The stack's outputs and how they change; a preview shows only the changes.
pub(super) fn outputs(old: Option<&Outputs>, new: &Outputs, planning: bool) -> String {
    let before = old.map(|old| outputs::printable(old, false));
    let after = outputs::printable(new, false);
    let former = before.iter().flat_map(Map::keys);
    let names: BTreeSet<&String> = former.chain(after.keys()).collect();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let lines = names.into_iter().map(|name| {
        let old = before.as_ref().and_then(|before| before.get(name));
        let change = match (old, after.get(name)) {
            (Some(old), Some(new)) if old == new && planning => None,
            (None, Some(new)) if before.is_none() => Some(("    ", value(new, 4))),
            (old, new) => output_change(old, new),
        };
        change.map(|(sign, change)| format!("{sign}{name:width$}: {change}\n"))
    });
    let lines: String = lines.flatten().collect();
    if lines.is_empty() {
        return lines;
    }
    format!("    --outputs:--\n{lines}")
}

/// The change of one output of an existing stack.
fn output_change(old: Option<&Value>, new: Option<&Value>) -> Option<(&'static str, String)> {
    match (old, new) {
        (Some(old), Some(new)) if old != new => {
            Some(("  ~ ", format!("{} => {}", value(old, 4), value(new, 4))))
        }
        (Some(_), Some(new)) => Some(("    ", value(new, 4))),
        (None, Some(new)) => Some(("  + ", value(new, 4))),
        (Some(old), None) => Some(("  - ", value(old, 4))),
        (None, None) => None,
    }
}

/// How many resources changed in which way.
pub(super) fn resources(changes: &Map<String, Value>, planning: bool) -> String {
    let mut text = "Resources:\n".to_owned();
    for (kind, sign, done, planned) in KINDS {
        if let Some(count) = changes.get(kind) {
            let word = if planning { planned } else { done };
            let _ = writeln!(text, "    {sign}{count} {word}");
        }
    }
    if let Some(count) = changes.get("same") {
        let _ = writeln!(text, "    {count} unchanged");
    }
    if planning {
        return text;
    }
    text + "\nDuration: 1s\n"
}

/// A value, whose further lines are indented.
pub(super) fn value(value: &Value, indent: usize) -> String {
    let space = " ".repeat(indent);
    match value {
        Value::Null => "<null>".to_owned(),
        Value::String(text) if text == "[secret]" => text.clone(),
        Value::Array(items) => {
            let inner = items.iter().enumerate().map(|(index, item)| {
                format!("{space}    [{index}]: {}\n", self::value(item, indent + 4))
            });
            format!("[\n{}{space}]", inner.collect::<String>())
        }
        Value::Object(map) => {
            let width = map.keys().map(String::len).max().unwrap_or(0);
            let inner = map.iter().map(|(key, item)| {
                format!(
                    "{space}    {key:width$}: {}\n",
                    self::value(item, indent + 4)
                )
            });
            format!("{{\n{}{space}}}", inner.collect::<String>())
        }
        other => other.to_string(),
    }
}

fn sign(operation: &str) -> &'static str {
    let known = KINDS.into_iter().find(|(kind, ..)| *kind == operation);
    known.map_or("  ", |(_, sign, ..)| sign)
}
