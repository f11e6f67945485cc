//! The four CRDs as values: names, versions, columns, and the rules that the API server checks.

use k8s_openapi::{
    ListableResource,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::{
    Program, Stack, Update, Workspace,
    auto::v1alpha1::{UpdateSpec, UpdateStatus, WorkspaceSpec, WorkspaceStatus},
    pulumi::{
        v1::{ProgramBody, ProgramStatus, StackSpec, StackStatus},
        v1alpha1,
    },
    schema,
};

/// With `-workspace` and the hash of a revision, the name must fit into a label.
pub const MAX_STACK_NAME_LENGTH: usize = 42;

/// One column of `kubectl get`.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    path: &'static str,
    shown_as: &'static str,
    /// Only `kubectl get -o wide` shows it.
    wide: bool,
}

const fn column(name: &'static str, path: &'static str) -> Column {
    Column {
        name,
        path,
        shown_as: "string",
        wide: false,
    }
}

const fn date(name: &'static str, path: &'static str) -> Column {
    Column {
        shown_as: "date",
        ..column(name, path)
    }
}

const fn wide(column: Column) -> Column {
    Column {
        wide: true,
        ..column
    }
}

const AGE: Column = date("Age", ".metadata.creationTimestamp");

const STACK_COLUMNS: &[Column] = &[
    wide(column("Stack", ".spec.stack")),
    column("Last Update", ".status.lastUpdate.state"),
    date("Age", ".status.lastUpdate.lastResyncTime"),
    wide(column(
        "Last Commit",
        ".status.lastUpdate.lastAttemptedCommit",
    )),
    column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#),
    column(
        "Reconciling",
        r#".status.conditions[?(@.type=="Reconciling")].reason"#,
    ),
    column(
        "Stalled",
        r#".status.conditions[?(@.type=="Stalled")].reason"#,
    ),
    column("Permalink", ".status.lastUpdate.permalink"),
];

const PROGRAM_COLUMNS: &[Column] = &[AGE, column("URL", ".status.artifact.url")];

const WORKSPACE_COLUMNS: &[Column] = &[
    column("Image", ".spec.image"),
    column("Ready", r#".status.conditions[?(@.type=="Ready")].status"#),
    column("Address", ".status.address"),
    AGE,
];

const UPDATE_COLUMNS: &[Column] = &[
    column("Workspace", ".spec.workspaceName"),
    wide(column("Type", ".spec.type")),
    wide(date("Start Time", ".status.startTime")),
    wide(date("End Time", ".status.endTime")),
    column(
        "Progressing",
        r#".status.conditions[?(@.type=="Progressing")].status"#,
    ),
    column(
        "Failed",
        r#".status.conditions[?(@.type=="Failed")].status"#,
    ),
    column(
        "Complete",
        r#".status.conditions[?(@.type=="Complete")].status"#,
    ),
    column("URL", ".status.permalink"),
    AGE,
];

/// The four CRDs, in the order of installation.
#[must_use]
pub fn all() -> Vec<Value> {
    vec![stacks(), programs(), workspaces(), updates()]
}

/// The four CRDs, as the type that a client applies.
///
/// # Errors
/// Never, as long as the tests of this crate pass.
pub fn typed() -> Result<Vec<CustomResourceDefinition>, serde_json::Error> {
    all().into_iter().map(serde_json::from_value).collect()
}

fn stacks() -> Value {
    let mut spec = schema::of::<StackSpec>();
    reject_snake_case(&mut spec);
    reject_impossible_specs(&mut spec);
    let version = |name: &str, status: Value, columns: &[Column], storage: bool| {
        let mut root = root(&[("spec", spec.clone()), ("status", status)]);
        add(
            &mut root,
            "x-kubernetes-validations",
            json!([{
                "rule": format!("size(self.metadata.name) <= {MAX_STACK_NAME_LENGTH}"),
                "message": format!("Stack name must be no more than {MAX_STACK_NAME_LENGTH} characters in length."),
            }]),
        );
        version(name, &root, columns, storage)
    };
    definition::<Stack>(&json!([
        version("v1", schema::of::<StackStatus>(), STACK_COLUMNS, true),
        version(
            "v1alpha1",
            schema::of::<v1alpha1::LegacyStackStatus>(),
            &[],
            false
        ),
    ]))
}

fn programs() -> Value {
    one_version::<Program, ProgramBody, ProgramStatus>("program", PROGRAM_COLUMNS)
}

fn workspaces() -> Value {
    one_version::<Workspace, WorkspaceSpec, WorkspaceStatus>("spec", WORKSPACE_COLUMNS)
}

fn updates() -> Value {
    one_version::<Update, UpdateSpec, UpdateStatus>("spec", UPDATE_COLUMNS)
}

fn one_version<K, Body, Status>(body: &str, columns: &[Column]) -> Value
where
    K: ListableResource,
    Body: JsonSchema,
    Status: JsonSchema,
{
    let root = root(&[
        (body, schema::of::<Body>()),
        ("status", schema::of::<Status>()),
    ]);
    definition::<K>(&json!([version(K::VERSION, &root, columns, true)]))
}

fn definition<K: ListableResource>(versions: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", K::URL_PATH_SEGMENT, K::GROUP) },
        "spec": {
            "group": K::GROUP,
            "names": {
                "categories": ["pulumi"],
                "kind": K::KIND,
                "listKind": K::LIST_KIND,
                "plural": K::URL_PATH_SEGMENT,
                "singular": K::KIND.to_lowercase(),
            },
            "scope": "Namespaced",
            "versions": versions,
        },
    })
}

fn version(name: &str, root: &Value, columns: &[Column], storage: bool) -> Value {
    let mut version = json!({
        "name": name,
        "served": true,
        "storage": storage,
        "subresources": { "status": {} },
        "schema": { "openAPIV3Schema": root },
    });
    if !columns.is_empty() {
        let columns = columns.iter().map(column_json).collect();
        add(&mut version, "additionalPrinterColumns", columns);
    }
    version
}

fn column_json(column: &Column) -> Value {
    let mut column_json =
        json!({ "name": column.name, "type": column.shown_as, "jsonPath": column.path });
    if column.wide {
        add(&mut column_json, "priority", json!(10));
    }
    column_json
}

fn root(parts: &[(&str, Value)]) -> Value {
    let mut properties = json!({
        "apiVersion": { "type": "string" },
        "kind": { "type": "string" },
        "metadata": { "type": "object" },
    });
    for (name, part) in parts {
        let mut part = part.clone();
        schema::remove_marks(&mut part);
        add(&mut properties, name, part);
    }
    json!({ "type": "object", "properties": properties })
}

fn add(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(object) = object {
        object.insert(key.to_owned(), value);
    }
}

/// Rejects specs that upstream's operator accepts and then always stalls on. A stored Stack with
/// such a spec can still be read, updated and deleted: the API server validates only changed
/// fields.
fn reject_impossible_specs(spec: &mut Value) {
    let rule = |rule: &str, message: &str| json!([{ "rule": rule, "message": message }]);
    add(
        spec,
        "x-kubernetes-validations",
        rule(
            "!has(self.branch) || !has(self.commit) || self.branch == '' || self.commit == ''",
            r#"only one of "commit" or "branch" should be specified"#,
        ),
    );
    for (field, usable) in [
        ("envRefs", "Secret, ConfigMap or Literal"),
        ("secretsRef", "Secret or Literal"),
    ] {
        let pointer = format!("/properties/{field}/additionalProperties");
        let Some(reference) = spec.pointer_mut(&pointer) else {
            continue;
        };
        let message = format!("ref types \"Env\" and \"FS\" are deprecated: use {usable}");
        let supported = rule("!(self.type in ['Env', 'FS'])", &message);
        add(reference, "x-kubernetes-validations", supported);
    }
}

/// Rejects the spelling of old Python examples (`project_repo`) and names the right one. Otherwise
/// the API server drops such a field silently, or rejects it without a hint.
fn reject_snake_case(spec: &mut Value) {
    let Some(Value::Object(properties)) = spec.get_mut("properties") else {
        return;
    };
    let wrong: Vec<(String, Value)> = properties
        .iter()
        .filter_map(|(name, property)| {
            let snake = snake_case(name)?;
            let mut rejected = json!({
                "description": spelling_hint(name),
                "x-kubernetes-validations": [{
                    "rule": "false",
                    "message": format!("{snake} is spelled {name}"),
                }],
            });
            for key in ["type", "items"] {
                if let Some(value) = property.get(key) {
                    add(&mut rejected, key, value.clone());
                }
            }
            if property.get("type").is_some_and(|kind| kind == "object") {
                add(
                    &mut rejected,
                    "x-kubernetes-preserve-unknown-fields",
                    true.into(),
                );
            }
            Some((snake, rejected))
        })
        .collect();
    properties.extend(wrong);
}

/// The description that `kubectl explain` shows; without it, the field looks usable.
fn spelling_hint(name: &str) -> String {
    format!("misspelled; use {name}")
}

/// The name in snake case, if it differs.
fn snake_case(name: &str) -> Option<String> {
    name.contains(|letter: char| letter.is_ascii_uppercase())
        .then(|| {
            name.chars()
                .flat_map(|letter| {
                    let underscore = letter.is_ascii_uppercase().then_some('_');
                    underscore.into_iter().chain([letter.to_ascii_lowercase()])
                })
                .collect()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crds_decode_as_custom_resource_definitions() {
        let names: Vec<_> = typed()
            .unwrap()
            .into_iter()
            .map(|crd| crd.metadata.name.unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "stacks.pulumi.com",
                "programs.pulumi.com",
                "workspaces.auto.pulumi.com",
                "updates.auto.pulumi.com"
            ]
        );
    }

    #[test]
    fn crd_typed_form_is_lossless() {
        let mut typed = serde_json::to_value(typed().unwrap()).unwrap();
        let mut all = Value::Array(all());
        floats_only(&mut typed);
        floats_only(&mut all);
        assert_eq!(typed, all);
    }

    /// Limits are floating point numbers in the typed form.
    fn floats_only(value: &mut Value) {
        match value {
            Value::Number(number) => *value = json!(number.as_f64()),
            Value::Array(items) => items.iter_mut().for_each(floats_only),
            Value::Object(fields) => fields.values_mut().for_each(floats_only),
            _ => {}
        }
    }

    #[test]
    fn crd_reference_fields_have_rules() {
        let stacks = stacks();
        for version in [0, 1] {
            let spec = format!("/spec/versions/{version}/schema/openAPIV3Schema/properties/spec");
            for path in [
                "",
                "/properties/envRefs/additionalProperties",
                "/properties/secretsRef/additionalProperties",
            ] {
                let rules = stacks.pointer(&format!("{spec}{path}/x-kubernetes-validations"));
                assert_eq!(rules.unwrap().as_array().unwrap().len(), 1, "{spec}{path}");
            }
        }
    }

    #[test]
    fn crd_has_no_generator_markers() {
        assert!(!json!(all()).to_string().contains("x-embedded"));
    }

    #[test]
    fn snake_case_fields_name_the_right_spelling() {
        let spec = schema::of::<StackSpec>();
        let names = spec["properties"].as_object().unwrap().keys();
        let names: Vec<&String> = names.filter(|name| snake_case(name).is_some()).collect();
        assert!(names.len() > 30, "{names:?}");
        let stacks = stacks();
        for version in [0, 1] {
            let path = format!("/spec/versions/{version}/schema/openAPIV3Schema/properties/spec");
            let properties = &stacks.pointer(&path).unwrap()["properties"];
            for name in &names {
                let snake = snake_case(name).unwrap();
                assert_eq!(properties[&snake]["description"], spelling_hint(name));
            }
        }
    }

    #[test]
    fn snake_case_names_are_those_of_python() {
        assert_eq!(
            snake_case("accessTokenSecret").as_deref(),
            Some("access_token_secret")
        );
        assert_eq!(snake_case("commit"), None);
    }
}
