//! One resource: its type, what it is made or read from, its options.

use pko_api::pulumi::v1::{GetResource, Resource, ResourceOptions};
use pulumi_yaml::keys::{
    IGNORED_RESOURCE_FIELDS, PROVIDER_TYPE_PREFIX, RESOURCE_FIELDS, RESOURCE_OPTIONS,
};
use serde_json::Value;

use super::{
    expression::{Walk, kind},
    finding::quote,
    interpolation::{self, Text},
    names::{DeclarationKind, Names},
    path::Path,
    recorder::FindingRecorder,
};

/// Checks a resource, and gives back what it refers to and has to come after.
pub(super) fn check<'value>(
    resource: &'value Resource,
    path: &Path<'_>,
    names: &Names<'value>,
    recorder: &mut FindingRecorder,
) -> Vec<&'value str> {
    resource_type(resource, path, recorder);
    unknown_fields(resource, path, recorder);
    let mut walk = Walk::new(recorder, Some(names));
    let properties = path.key("properties");
    for (name, value) in &resource.properties {
        walk.value(value, &properties.key(name));
    }
    let mut references = walk.into_references();
    if let Some(get) = &resource.get {
        references.extend(read_from(get, resource, &path.key("get"), names, recorder));
    }
    if let Some(options) = &resource.options {
        let path = path.key("options");
        references.extend(check_options(options, &path, names, recorder));
    }
    references
}

fn resource_type(resource: &Resource, path: &Path<'_>, recorder: &mut FindingRecorder) {
    let (text, at) = (resource.resource_type.as_str(), path.key("type"));
    if text.is_empty() {
        recorder.problem(&at, "is empty; set a type, such as aws:s3:Bucket");
    } else if !(2..=3).contains(&text.split(':').count()) {
        let text = format!(
            "{} is not a type; write package:Type or package:module:Type, such as aws:s3:Bucket",
            quote(text)
        );
        recorder.problem(&at, text);
    }
    if resource.default_provider.is_some() && !text.starts_with(PROVIDER_TYPE_PREFIX) {
        let text = format!(
            "only a provider can have this, but the type is {}: remove it",
            quote(text)
        );
        recorder.problem(&path.key("defaultProvider"), text);
    }
}

/// Pulumi rejects unknown fields. A field that resembles none may belong to a newer Pulumi.
fn unknown_fields(resource: &Resource, path: &Path<'_>, recorder: &mut FindingRecorder) {
    let fields = resource.unknown.keys().map(String::as_str);
    for field in fields.filter(|field| !IGNORED_RESOURCE_FIELDS.contains(field)) {
        report_unknown(field, "resource field", &RESOURCE_FIELDS, path, recorder);
    }
}

fn report_unknown(
    field: &str,
    what: &str,
    known: &[&str],
    path: &Path<'_>,
    recorder: &mut FindingRecorder,
) {
    let path = path.key(field);
    match recorder.nearest(field, known.iter().copied()) {
        // Pulumi ignores case.
        Some(meant) if meant.eq_ignore_ascii_case(field) => {
            recorder.remark(&path, format!("is spelled {meant:?}"));
        }
        Some(meant) => {
            let text = format!("unknown {what}; did you mean {meant:?}?");
            recorder.problem(&path, text);
        }
        None => {
            let text = format!("unknown {what}; this version of Pulumi may reject it");
            recorder.remark(&path, text);
        }
    }
}

fn read_from<'value>(
    get: &'value GetResource,
    resource: &Resource,
    path: &Path<'_>,
    names: &Names<'value>,
    recorder: &mut FindingRecorder,
) -> Vec<&'value str> {
    let id = path.key("id");
    if get.id.is_empty() {
        let text = "is empty; set the id of the existing resource";
        recorder.problem(&id, text);
    }
    if !resource.properties.is_empty() {
        let text = "get and properties are mutually exclusive; remove one";
        recorder.problem(path, text);
    }
    let mut walk = Walk::new(recorder, Some(names));
    walk.text(&get.id, &id);
    let state = path.key("state");
    for (name, value) in &get.state {
        walk.value(value, &state.key(name));
    }
    walk.into_references()
}

/// Checks the options, and returns the references that must come before the resource.
fn check_options<'value>(
    options: &'value ResourceOptions,
    path: &Path<'_>,
    names: &Names<'value>,
    recorder: &mut FindingRecorder,
) -> Vec<&'value str> {
    for field in options.unknown.keys() {
        report_unknown(field, "option", &RESOURCE_OPTIONS, path, recorder);
    }
    let mut refers = |value: &Value, at: &Path<'_>| refers_to_resource(value, at, names, recorder);
    each_dependency(options, path, &mut refers);
    each_other(options, path, &mut refers);
    let mut walk = Walk::new(recorder, Some(names));
    for (name, value) in [
        ("deletedWith", &options.deleted_with),
        ("envVarMappings", &options.env_var_mappings),
        ("replaceWith", &options.replace_with),
        ("replacementTrigger", &options.replacement_trigger),
    ] {
        if let Some(value) = value {
            walk.value(value, &path.key(name));
        }
    }
    let mut walk = Walk::new(recorder, Some(names));
    each_dependency(options, path, &mut |value, at| walk.value(value, at));
    let aliases = path.key("aliases");
    for (index, alias) in options.aliases.iter().enumerate() {
        walk.text(alias, &aliases.index(index));
    }
    walk.into_references()
}

type ValueVisitor<'visit, 'value> = &'visit mut dyn FnMut(&'value Value, &Path<'_>);

/// Visits the values that must be resources and must come before this one.
fn each_dependency<'value>(
    options: &'value ResourceOptions,
    path: &Path<'_>,
    visit: ValueVisitor<'_, 'value>,
) {
    let depends_on = path.key("dependsOn");
    for (index, value) in options.depends_on.iter().enumerate() {
        visit(value, &depends_on.index(index));
    }
    for (name, value) in [("parent", &options.parent), ("provider", &options.provider)] {
        if let Some(value) = value {
            visit(value, &path.key(name));
        }
    }
    let providers = path.key("providers");
    for (name, value) in &options.providers {
        visit(value, &providers.key(name));
    }
}

/// The other values that have to be resources.
fn each_other<'value>(
    options: &'value ResourceOptions,
    path: &Path<'_>,
    visit: ValueVisitor<'_, 'value>,
) {
    if let Some(value) = &options.deleted_with {
        visit(value, &path.key("deletedWith"));
    }
    // A list that is computed may hold anything.
    if let Some(Value::Array(values)) = &options.replace_with {
        let replace_with = path.key("replaceWith");
        for (index, value) in values.iter().enumerate() {
            visit(value, &replace_with.index(index));
        }
    }
}

/// A problem only where it is certain: a function or a variable can give a resource.
fn refers_to_resource(
    value: &Value,
    path: &Path<'_>,
    names: &Names<'_>,
    recorder: &mut FindingRecorder,
) {
    if recorder.is_full() {
        return;
    }
    match value {
        Value::String(text) => match interpolation::read(text) {
            Ok(Text::Reference { root, .. })
                if names.kind(root) == Some(DeclarationKind::Config) =>
            {
                let text = format!("{} is a config value, not a resource", quote(text));
                recorder.problem(path, text);
            }
            Ok(Text::Literal) => literal_for_resource(text, path, names, recorder),
            Ok(Text::Mixed(_)) => {
                let text = format!("{} is a string, not a resource", quote(text));
                recorder.problem(path, text);
            }
            // The walk through the value reports parse errors.
            Ok(Text::Reference { .. }) | Err(_) => {}
        },
        Value::Bool(_) | Value::Number(_) => {
            let text = format!(
                "{value} is {}, not a resource; write ${{name}}",
                kind(value)
            );
            recorder.problem(path, text);
        }
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
}

fn literal_for_resource(
    text: &str,
    path: &Path<'_>,
    names: &Names<'_>,
    recorder: &mut FindingRecorder,
) {
    let meant = names.nearest_resource(text, recorder);
    let way_out = meant.map_or_else(
        || "write ${name} of a resource".to_owned(),
        |name| format!("write \"${{{name}}}\""),
    );
    let text = format!("{} is a string, not a resource; {way_out}", quote(text));
    recorder.problem(path, text);
}
