//! The form in which Go's types write a pod, which is the one that upstream stores: what they always write, what they
//! leave out, and amounts in their one text. A Workspace in another form is another Workspace to the API server, and its
//! pod would be replaced when a Stack is taken over.

use pko_api::JsonObject;
use serde_json::{Value, json};

use super::{go_types, quantity};

/// The lists of containers in a pod.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Takes away what says nothing to Go's types, which a template has gone through before it is laid over anything.
pub(super) fn trim_workspace(spec: &mut JsonObject) {
    each(spec, "env", |variable| go_types::trim(variable, "EnvVar"));
    each(spec, "envFrom", |source| {
        go_types::trim(source, "EnvFromSource");
    });
    let template = existing(spec, "podTemplate");
    if let Some(pod) = template.and_then(|template| existing(template, "spec")) {
        go_types::trim(pod, "PodSpec");
    }
}

/// Gives the spec of a Workspace this form.
pub(super) fn settle_workspace(spec: &mut JsonObject) {
    // What it says of its main container has the fields of one.
    settle_container(spec);
    trim_workspace(spec);
    if let Some(template) = filled(spec, "podTemplate") {
        filled(template, "metadata");
        filled(template, "spec").map(settle_pod);
    }
}

/// Gives the spec of a pod this form. What our types don't know is kept.
pub fn settle_pod(pod: &mut JsonObject) {
    for list in CONTAINERS {
        each(pod, list, settle_container);
    }
    each(pod, "volumes", settle_volume);
    settle_amounts(pod, "overhead");
    go_types::trim(pod, "PodSpec");
}

fn settle_container(container: &mut JsonObject) {
    filled(container, "resources").map(settle_resources);
    each(container, "env", |variable| {
        if let Some(source) = existing(variable, "valueFrom") {
            settle_field(source);
        }
    });
}

fn settle_resources(resources: &mut JsonObject) {
    settle_amounts(resources, "limits");
    settle_amounts(resources, "requests");
}

fn settle_volume(volume: &mut JsonObject) {
    if let Some(folder) = existing(volume, "emptyDir") {
        settle_amount(folder, "sizeLimit");
    }
    if let Some(claim) =
        existing(volume, "ephemeral").and_then(|claim| existing(claim, "volumeClaimTemplate"))
    {
        filled(claim, "metadata");
        let spec = filled(claim, "spec");
        spec.and_then(|spec| filled(spec, "resources"))
            .map(settle_resources);
    }
    settle_files(volume);
    if let Some(projected) = existing(volume, "projected") {
        each(projected, "sources", settle_files);
    }
}

/// Files with what the pod knows of itself.
fn settle_files(volume: &mut JsonObject) {
    if let Some(files) = existing(volume, "downwardAPI") {
        each(files, "items", settle_field);
    }
}

/// A reference to what a container may use.
fn settle_field(reference: &mut JsonObject) {
    if let Some(field) = existing(reference, "resourceFieldRef") {
        field.entry("divisor").or_insert_with(|| json!("0"));
        settle_amount(field, "divisor");
    }
}

fn settle_amounts(parent: &mut JsonObject, field: &str) {
    if let Some(amounts) = existing(parent, field) {
        let names: Vec<String> = amounts.keys().cloned().collect();
        for name in names {
            settle_amount(amounts, &name);
        }
    }
    remove_if(parent, field, &json!({}));
}

fn settle_amount(parent: &mut JsonObject, field: &str) {
    let text = match parent.get(field) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => return,
    };
    let text = quantity::canonical(&text).unwrap_or(text);
    parent.insert(field.to_owned(), text.into());
}

/// The object in this field, an empty one if there is none.
fn filled<'parent>(
    parent: &'parent mut JsonObject,
    field: &str,
) -> Option<&'parent mut JsonObject> {
    let value = parent.entry(field).or_insert_with(|| json!({}));
    value.as_object_mut()
}

fn existing<'parent>(
    parent: &'parent mut JsonObject,
    field: &str,
) -> Option<&'parent mut JsonObject> {
    parent.get_mut(field).and_then(Value::as_object_mut)
}

fn each(parent: &mut JsonObject, list: &str, settle: impl Fn(&mut JsonObject)) {
    let items = parent.get_mut(list).and_then(Value::as_array_mut);
    let items = items.into_iter().flatten();
    items.filter_map(Value::as_object_mut).for_each(settle);
}

fn remove_if(parent: &mut JsonObject, field: &str, silent: &Value) {
    if parent.get(field) == Some(silent) {
        parent.remove(field);
    }
}
