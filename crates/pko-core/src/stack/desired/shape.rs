//! The form in which Go's types serialize a pod, which upstream stores: fields that are always
//! written, fields that are omitted, and canonical quantities. For the API server a Workspace in
//! another form is a change, which would replace the pod of a Stack that is taken over from
//! upstream.

use pko_api::JsonObject;
use serde_json::{Value, json};

use super::{go_types, quantity};

/// The lists of containers in a pod.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Removes the fields that Go's types omit. Upstream decodes a template before it merges it.
pub(super) fn trim_workspace(spec: &mut JsonObject) {
    each(spec, "env", |variable| go_types::trim(variable, "EnvVar"));
    each(spec, "envFrom", |source| {
        go_types::trim(source, "EnvFromSource");
    });
    let template = find_object(spec, "podTemplate");
    if let Some(pod) = template.and_then(|template| find_object(template, "spec")) {
        go_types::trim(pod, "PodSpec");
    }
}

/// Converts the spec of a Workspace.
pub(super) fn settle_workspace(spec: &mut JsonObject) {
    // The spec itself has the fields of its main container.
    settle_container(spec);
    trim_workspace(spec);
    if let Some(template) = ensure_object(spec, "podTemplate") {
        ensure_object(template, "metadata");
        ensure_object(template, "spec").map(settle_pod);
    }
}

/// Converts the spec of a pod. Unknown fields are kept.
pub fn settle_pod(pod: &mut JsonObject) {
    for list in CONTAINERS {
        each(pod, list, settle_container);
    }
    each(pod, "volumes", settle_volume);
    settle_amounts(pod, "overhead");
    go_types::trim(pod, "PodSpec");
}

fn settle_container(container: &mut JsonObject) {
    ensure_object(container, "resources").map(settle_resources);
    each(container, "env", |variable| {
        if let Some(source) = find_object(variable, "valueFrom") {
            settle_field(source);
        }
    });
}

fn settle_resources(resources: &mut JsonObject) {
    settle_amounts(resources, "limits");
    settle_amounts(resources, "requests");
}

fn settle_volume(volume: &mut JsonObject) {
    if let Some(folder) = find_object(volume, "emptyDir") {
        settle_amount(folder, "sizeLimit");
    }
    if let Some(claim) =
        find_object(volume, "ephemeral").and_then(|claim| find_object(claim, "volumeClaimTemplate"))
    {
        ensure_object(claim, "metadata");
        let spec = ensure_object(claim, "spec");
        spec.and_then(|spec| ensure_object(spec, "resources"))
            .map(settle_resources);
    }
    settle_files(volume);
    if let Some(projected) = find_object(volume, "projected") {
        each(projected, "sources", settle_files);
    }
}

/// Files with fields of the pod itself.
fn settle_files(volume: &mut JsonObject) {
    if let Some(files) = find_object(volume, "downwardAPI") {
        each(files, "items", settle_field);
    }
}

/// A reference to a resource of a container.
fn settle_field(reference: &mut JsonObject) {
    if let Some(field) = find_object(reference, "resourceFieldRef") {
        field.entry("divisor").or_insert_with(|| json!("0"));
        settle_amount(field, "divisor");
    }
}

fn settle_amounts(parent: &mut JsonObject, field: &str) {
    if let Some(amounts) = find_object(parent, field) {
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

/// The object in this field, which is created if it is missing.
fn ensure_object<'parent>(
    parent: &'parent mut JsonObject,
    field: &str,
) -> Option<&'parent mut JsonObject> {
    let value = parent.entry(field).or_insert_with(|| json!({}));
    value.as_object_mut()
}

fn find_object<'parent>(
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

fn remove_if(parent: &mut JsonObject, field: &str, removable: &Value) {
    if parent.get(field) == Some(removable) {
        parent.remove(field);
    }
}
