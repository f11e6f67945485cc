//! One resource: its type, what it is made or read from, its options.

use pko_api::pulumi::v1::{GetResource, Resource, ResourceOptions};
use serde_json::Value;

use super::{
    expression::{Walk, kind},
    finding::{Findings, Path, did_you_mean, nearest, quoted},
    interpolation::{self, Text},
    names::{DeclarationKind, Names},
};

const PROVIDERS: &str = "pulumi:providers:";
const FIELDS: [&str; 6] = [
    "defaultProvider",
    "get",
    "name",
    "options",
    "properties",
    "type",
];
/// Fields that Pulumi does nothing with and takes all the same.
const RESERVED_FIELDS: [&str; 2] = ["condition", "metadata"];
const OPTIONS: [&str; 20] = [
    "additionalSecretOutputs",
    "aliases",
    "customTimeouts",
    "deleteBeforeReplace",
    "deletedWith",
    "dependsOn",
    "envVarMappings",
    "hideDiffs",
    "ignoreChanges",
    "import",
    "parent",
    "pluginDownloadURL",
    "protect",
    "provider",
    "providers",
    "replaceOnChanges",
    "replaceWith",
    "replacementTrigger",
    "retainOnDelete",
    "version",
];

/// Checks a resource, and gives back what it refers to and has to come after.
pub(super) fn check<'value>(
    resource: &'value Resource,
    path: &Path,
    names: &Names,
    findings: &mut Findings,
) -> Vec<(&'value str, Path)> {
    resource_type(resource, path, findings);
    unknown_fields(resource, path, findings);
    let mut walk = Walk::new(findings);
    for (name, value) in &resource.properties {
        walk.value(value, &path.key("properties").key(name));
    }
    if let Some(get) = &resource.get {
        read_from(get, resource, &path.key("get"), &mut walk);
    }
    let mut references = names.judge(walk);
    if let Some(options) = &resource.options {
        let path = path.key("options");
        references.extend(check_options(options, &path, names, findings));
    }
    references
}

fn resource_type(resource: &Resource, path: &Path, findings: &mut Findings) {
    let (text, at) = (resource.resource_type.as_str(), path.key("type"));
    if text.is_empty() {
        findings.problem(&at, "is empty: give a type, such as aws:s3:Bucket");
    } else if !(2..=3).contains(&text.split(':').count()) {
        let text = format!(
            "{} is no type: write package:Type or package:module:Type, such as aws:s3:Bucket",
            quoted(text)
        );
        findings.problem(&at, text);
    }
    if resource.default_provider.is_some() && !text.starts_with(PROVIDERS) {
        let text = format!(
            "only a provider can have this, and the type is {}: remove it",
            quoted(text)
        );
        findings.problem(&path.key("defaultProvider"), text);
    }
}

/// Pulumi refuses these. One that looks like none of its fields may be known to a newer Pulumi.
fn unknown_fields(resource: &Resource, path: &Path, findings: &mut Findings) {
    let fields = resource.unknown.keys().map(String::as_str);
    for field in fields.filter(|field| !RESERVED_FIELDS.contains(field)) {
        unknown(field, "field of a resource", &FIELDS, path, findings);
    }
}

fn unknown(field: &str, what: &str, known: &[&str], path: &Path, findings: &mut Findings) {
    let path = path.key(field);
    match nearest(field, known.iter().copied()) {
        // Pulumi does not mind how letters are cased.
        Some(meant) if meant.eq_ignore_ascii_case(field) => {
            findings.remark(&path, format!("is written {meant:?}"));
        }
        Some(_) => {
            let meant = did_you_mean(field, known.iter().copied());
            findings.problem(&path, format!("there is no such {what}{meant}"));
        }
        None => {
            let text = format!("this is no known {what}: Pulumi refuses it unless it is new");
            findings.remark(&path, text);
        }
    }
}

fn read_from<'value>(
    get: &'value GetResource,
    resource: &Resource,
    path: &Path,
    walk: &mut Walk<'_, 'value>,
) {
    if get.id.is_empty() {
        let text = "is empty: give the id that the provider knows the resource by";
        walk.findings.problem(&path.key("id"), text);
    }
    if !resource.properties.is_empty() {
        let text = "stands beside properties: one reads a resource that exists, the other makes one; remove either";
        walk.findings.problem(path, text);
    }
    walk.text(&get.id, &path.key("id"));
    for (name, value) in &get.state {
        walk.value(value, &path.key("state").key(name));
    }
}

/// Checks the options, and gives back what the resource has to come after because of them.
fn check_options<'value>(
    options: &'value ResourceOptions,
    path: &Path,
    names: &Names,
    findings: &mut Findings,
) -> Vec<(&'value str, Path)> {
    for field in options.unknown.keys() {
        unknown(field, "option", &OPTIONS, path, findings);
    }
    let (ordering, others) = resources(options, path);
    for (value, at) in ordering.iter().chain(&others) {
        refers_to_resource(value, at, names, findings);
    }
    let mut walk = Walk::new(findings);
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
    names.judge(walk);
    let mut walk = Walk::new(findings);
    for (value, at) in &ordering {
        walk.value(value, at);
    }
    for (index, alias) in options.aliases.iter().enumerate() {
        walk.text(alias, &path.key("aliases").index(index));
    }
    names.judge(walk)
}

type Located<'value> = Vec<(&'value Value, Path)>;

/// The values that have to be resources: those that come first, and others.
fn resources<'value>(
    options: &'value ResourceOptions,
    path: &Path,
) -> (Located<'value>, Located<'value>) {
    let mut ordering = Vec::new();
    for (index, value) in options.depends_on.iter().enumerate() {
        ordering.push((value, path.key("dependsOn").index(index)));
    }
    for (name, value) in [("parent", &options.parent), ("provider", &options.provider)] {
        ordering.extend(value.as_ref().map(|value| (value, path.key(name))));
    }
    for (name, value) in &options.providers {
        ordering.push((value, path.key("providers").key(name)));
    }
    let mut others = Vec::new();
    others.extend(
        options
            .deleted_with
            .as_ref()
            .map(|value| (value, path.key("deletedWith"))),
    );
    // A list that is computed may hold anything.
    if let Some(Value::Array(values)) = &options.replace_with {
        for (index, value) in values.iter().enumerate() {
            others.push((value, path.key("replaceWith").index(index)));
        }
    }
    (ordering, others)
}

/// A problem only where it is certain: a function or a variable can give a resource.
fn refers_to_resource(value: &Value, path: &Path, names: &Names, findings: &mut Findings) {
    match value {
        Value::String(text) => match interpolation::read(text) {
            Ok(Text::Reference { root, .. })
                if names.kind(root) == Some(DeclarationKind::Config) =>
            {
                let text = format!(
                    "{} is a config value, and a resource is needed",
                    quoted(text)
                );
                findings.problem(path, text);
            }
            Ok(Text::Literal) => literal_for_resource(text, path, names, findings),
            Ok(Text::Mixed(_)) => {
                let text = format!("{} is a text, and a resource is needed", quoted(text));
                findings.problem(path, text);
            }
            // What can't be read is said by whoever goes through the value.
            Ok(Text::Reference { .. }) | Err(_) => {}
        },
        Value::Bool(_) | Value::Number(_) => {
            let text = format!(
                "{value} is {}, and a resource is needed: write ${{name}}",
                kind(value)
            );
            findings.problem(path, text);
        }
        Value::Null | Value::Array(_) | Value::Object(_) => {}
    }
}

fn literal_for_resource(text: &str, path: &Path, names: &Names, findings: &mut Findings) {
    let meant = names.nearest_resource(text);
    let way_out = meant.map_or_else(
        || "write ${name} of one".to_owned(),
        |name| format!("write \"${{{name}}}\""),
    );
    let text = format!(
        "{} is a text, and a resource is needed: {way_out}",
        quoted(text)
    );
    findings.problem(path, text);
}
