//! The diff of inputs, which is nearly always a replacement.
//!
//! As in Pulumi's plugin, inputs are compared with the outputs of the state, not with its inputs:
//! an imported resource has only outputs, and an explicit default is no change.

use std::collections::BTreeMap;

use pulumi_engine_model::property::{Properties, Property};

use super::{resource::Resource, settings::RandomInputs};
use crate::{ChangeKind, ChangeRequest, Difference};

pub(super) fn difference(resource: &dyn Resource, request: &ChangeRequest<'_>) -> Difference {
    let (old, _) = RandomInputs::read(resource, request.old_outputs);
    let (new, _) = RandomInputs::read(resource, request.inputs);
    let mut changes = BTreeMap::new();
    for input in resource.inputs() {
        let old = old.values().get(input.name).map(|value| value.opened().0);
        let new = new.values().get(input.name).map(|value| value.opened().0);
        if old != new {
            let kind = kind(input.name, old.as_ref(), new.as_ref());
            for path in paths(input.name, old.as_ref(), new.as_ref()) {
                changes.insert(path, kind);
            }
        }
    }
    Difference {
        changes,
        delete_before_replace: false,
    }
}

fn kind(name: &str, old: Option<&Property>, new: Option<&Property>) -> ChangeKind {
    let harmless = match name {
        // empty keepers
        "keepers" => is_nothing(old) && is_nothing(new),
        // older plugins wrote an empty string for a missing input
        "overrideSpecial" => match new {
            None => matches!(old, Some(Property::String(text)) if text.is_empty()),
            Some(new) => matches!(new, Property::Unknown),
        },
        _ => false,
    };
    if harmless {
        ChangeKind::Update
    } else {
        ChangeKind::Replace
    }
}

fn is_nothing(value: Option<&Property>) -> bool {
    match value {
        None => true,
        Some(Property::Object(entries)) => entries.is_empty(),
        Some(_) => false,
    }
}

fn paths(name: &str, old: Option<&Property>, new: Option<&Property>) -> Vec<String> {
    match (old, new) {
        (Some(Property::Object(old)), Some(Property::Object(new))) => {
            changed_keys(old, new).map(|key| entry(name, key)).collect()
        }
        (Some(Property::List(old)), Some(Property::List(new))) => (0..old.len().max(new.len()))
            .filter(|index| old.get(*index) != new.get(*index))
            .map(|index| format!("{name}[{index}]"))
            .collect(),
        _ => vec![name.to_owned()],
    }
}

fn changed_keys<'a>(old: &'a Properties, new: &'a Properties) -> impl Iterator<Item = &'a String> {
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    let other = new
        .iter()
        .filter(|(key, value)| old.get(*key) != Some(value))
        .map(|(key, _)| key);
    gone.chain(other)
}

fn entry(name: &str, key: &str) -> String {
    if key.is_empty() || key.contains(['.', '[', ']', '"']) {
        format!("{name}[\"{}\"]", key.replace('"', "\\\""))
    } else {
        format!("{name}.{key}")
    }
}
