//! `spec.outputsTo`: the ConfigMaps and Secrets that get the outputs of a stack.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use pko_api::{
    Stack,
    names::annotations,
    pulumi::v1::{OutputsKind, OutputsTarget},
};
use serde_json::Value;

use super::desired::{owner, stack_labels};
use crate::update::data_key;

/// The objects to write, and the outputs that can't be written.
#[derive(Clone, PartialEq, Default)]
pub struct OutputsPublication {
    /// The objects, each with its field in the spec.
    pub objects: Vec<(String, Published)>,
    /// Messages, without the values of outputs.
    pub problems: Vec<String>,
}

/// An object that gets outputs.
#[derive(Clone, PartialEq)]
pub enum Published {
    Secret(Secret),
    /// Gets no secret outputs.
    ConfigMap(ConfigMap),
}

/// The outputs of an update: JSON in the Secret that stores them.
struct OutputSecret<'secret> {
    data: BTreeMap<&'secret String, &'secret ByteString>,
    /// The names of the secret outputs; all are secret if they can't be read.
    secret: Option<BTreeSet<String>>,
}

/// The objects for the targets of `spec.outputsTo`. Without a Secret the targets stay unchanged:
/// the outputs may have been too large to store.
#[must_use]
pub fn publication(stack: &Stack, outputs: Option<&Secret>) -> OutputsPublication {
    let mut publication = OutputsPublication::default();
    let Some(outputs) = outputs.map(OutputSecret::new) else {
        let problem = "the update has no outputs; the targets of spec.outputsTo are unchanged";
        publication.problems.push(problem.to_owned());
        return publication;
    };
    for (index, target) in stack.spec.outputs_to.iter().enumerate() {
        let field = format!("spec.outputsTo[{index}]");
        let values = values(&field, target, &outputs, &mut publication.problems);
        let object = object(stack, target, values);
        publication.objects.push((field, object));
    }
    publication
}

impl<'secret> OutputSecret<'secret> {
    fn new(secret: &'secret Secret) -> Self {
        let data = secret.data.iter().flatten();
        let annotations = secret.metadata.annotations.as_ref();
        let list = annotations.and_then(|all| all.get(annotations::SECRET_OUTPUTS));
        Self {
            data: data.collect(),
            secret: list.and_then(|list| serde_json::from_str(list).ok()),
        }
    }

    fn is_secret(&self, key: &str) -> bool {
        let secret = self.secret.as_ref();
        secret.is_none_or(|secret| secret.contains(key))
    }

    /// Finds an output by its name, which may contain characters that are not valid in a key.
    fn find(&self, output: &str) -> Option<(String, &'secret ByteString)> {
        let names = [output.to_owned(), data_key(output)];
        let mut found = names
            .into_iter()
            .filter_map(|name| self.data.get(&name).map(|value| (name, *value)));
        found.next()
    }
}

/// The content of one object by key.
fn values(
    field: &str,
    target: &OutputsTarget,
    outputs: &OutputSecret<'_>,
    problems: &mut Vec<String>,
) -> BTreeMap<String, Vec<u8>> {
    let plain_only = target.kind == OutputsKind::ConfigMap;
    if target.keys.is_empty() {
        let all = outputs.data.iter();
        let allowed = all.filter(|(key, _)| !(plain_only && outputs.is_secret(key)));
        return allowed
            .map(|(key, json)| ((*key).clone(), text(json)))
            .collect();
    }
    let mut values = BTreeMap::new();
    for (key, output) in &target.keys {
        match outputs.find(output) {
            None => problems.push(format!(
                "{field}.keys.{key} refers to output {output:?}, which the program does not export; \
                 export it or remove the key"
            )),
            Some((name, _)) if plain_only && outputs.is_secret(&name) => problems.push(format!(
                "{field}.keys.{key} refers to the secret output {output:?}; use a Secret instead of \
                 a ConfigMap"
            )),
            Some((_, json)) => {
                values.insert(key.clone(), text(json));
            }
        }
    }
    values
}

/// A string without its quotes; any other value as its original JSON, so that no digit is lost.
fn text(json: &ByteString) -> Vec<u8> {
    match serde_json::from_slice(&json.0) {
        Ok(Value::String(text)) => text.into_bytes(),
        _ => json.0.clone(),
    }
}

fn object(stack: &Stack, target: &OutputsTarget, values: BTreeMap<String, Vec<u8>>) -> Published {
    let metadata = ObjectMeta {
        name: Some(target.name.clone()),
        namespace: stack.metadata.namespace.clone(),
        labels: Some(stack_labels(stack)),
        owner_references: Some(vec![owner(stack, false)]),
        ..ObjectMeta::default()
    };
    let values = values.into_iter();
    match target.kind {
        OutputsKind::Secret => Published::Secret(Secret {
            metadata,
            data: Some(values.map(|(key, text)| (key, ByteString(text))).collect()),
            ..Secret::default()
        }),
        OutputsKind::ConfigMap => {
            let text = |text: Vec<u8>| String::from_utf8_lossy(&text).into_owned();
            Published::ConfigMap(ConfigMap {
                metadata,
                data: Some(values.map(|(key, value)| (key, text(value))).collect()),
                ..ConfigMap::default()
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stack(targets: &Value) -> Stack {
        serde_json::from_value(json!({
            "metadata": { "name": "demo", "namespace": "shop", "uid": "stack-uid" },
            "spec": { "stack": "dev", "outputsTo": targets },
        }))
        .unwrap()
    }

    fn outputs(secret: &Value) -> Secret {
        let data = [
            ("url", "\"https://x\""),
            ("count", "9007199254740993"),
            ("zones", "[\"a\", \"b\"]"),
            ("password", "\"hunter2\""),
            ("my_output_", "\"odd\""),
        ];
        let data = data.map(|(key, json)| (key.to_owned(), ByteString(json.into())));
        Secret {
            metadata: serde_json::from_value(json!({ "annotations": secret })).unwrap(),
            data: Some(data.into()),
            ..Secret::default()
        }
    }

    fn masked() -> Value {
        json!({ "pulumi.com/secrets": "[\"password\"]" })
    }

    /// The data of each object as text, and the problems.
    fn published(targets: &Value, outputs: Option<&Secret>) -> (Vec<Value>, Vec<String>) {
        let publication = publication(&stack(targets), outputs);
        let data = publication
            .objects
            .iter()
            .map(|(_, object)| match object {
                Published::ConfigMap(object) => json!(object.data.as_ref().unwrap()),
                Published::Secret(object) => {
                    let data = object.data.as_ref().unwrap().iter();
                    data.map(|(key, value)| {
                        (
                            key.clone(),
                            json!(String::from_utf8(value.0.clone()).unwrap()),
                        )
                    })
                    .collect::<serde_json::Map<_, _>>()
                    .into()
                }
            })
            .collect();
        (data, publication.problems)
    }

    #[test]
    fn without_keys_a_secret_gets_every_output() {
        let (data, problems) = published(
            &json!([{ "kind": "Secret", "name": "all" }]),
            Some(&outputs(&masked())),
        );
        assert_eq!(
            data,
            [json!({
                "url": "https://x", "count": "9007199254740993", "zones": "[\"a\", \"b\"]", "password": "hunter2",
                "my_output_": "odd",
            })]
        );
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn without_keys_a_config_map_gets_what_is_not_secret() {
        let (data, problems) = published(
            &json!([{ "kind": "ConfigMap", "name": "plain" }]),
            Some(&outputs(&masked())),
        );
        assert_eq!(
            data,
            [json!({
                "url": "https://x", "count": "9007199254740993", "zones": "[\"a\", \"b\"]", "my_output_": "odd",
            })]
        );
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn keys_choose_outputs_by_their_names() {
        let targets = json!([
            { "kind": "Secret", "name": "a", "keys": { "URL": "url", "PASSWORD": "password", "again": "url" } },
            { "kind": "ConfigMap", "name": "b", "keys": { "zones.json": "zones", "odd": "my output!" } },
        ]);
        let (data, problems) = published(&targets, Some(&outputs(&masked())));
        assert_eq!(
            data,
            [
                json!({ "URL": "https://x", "PASSWORD": "hunter2", "again": "https://x" }),
                json!({ "zones.json": "[\"a\", \"b\"]", "odd": "odd" }),
            ]
        );
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn missing_output_is_named_and_rest_is_written() {
        let targets = json!([
            { "kind": "Secret", "name": "a", "keys": { "x": "absent", "y": "url" } },
            { "kind": "ConfigMap", "name": "b", "keys": { "x": "password", "y": "url" } },
        ]);
        let (data, problems) = published(&targets, Some(&outputs(&masked())));
        assert_eq!(
            data,
            [json!({ "y": "https://x" }), json!({ "y": "https://x" })]
        );
        assert_eq!(
            problems,
            [
                "spec.outputsTo[0].keys.x refers to output \"absent\", which the program does not export; \
                 export it or remove the key",
                "spec.outputsTo[1].keys.x refers to the secret output \"password\"; use a Secret instead of \
                 a ConfigMap",
            ]
        );
    }

    #[test]
    fn outputs_of_unknown_secrecy_are_secret() {
        for annotations in [json!({}), json!({ "pulumi.com/secrets": "password" })] {
            let targets = json!([{ "kind": "ConfigMap", "name": "b" }]);
            let (data, _) = published(&targets, Some(&outputs(&annotations)));
            assert_eq!(data, [json!({})], "{annotations}");
        }
    }

    #[test]
    fn without_outputs_every_object_stays_as_it_is() {
        let targets = json!([
            { "kind": "ConfigMap", "name": "a" }, { "kind": "Secret", "name": "b", "keys": { "x": "url" } },
        ]);
        let (data, problems) = published(&targets, None);
        assert!(data.is_empty(), "{data:?}");
        assert_eq!(
            problems,
            ["the update has no outputs; the targets of spec.outputsTo are unchanged"]
        );
    }

    #[test]
    fn removed_output_leaves_object() {
        let empty = Secret::default();
        let targets = json!([{ "kind": "Secret", "name": "a" }]);
        assert_eq!(published(&targets, Some(&empty)).0, [json!({})]);
    }

    #[test]
    fn outputs_object_is_owned_by_stack() {
        let publication = publication(
            &stack(&json!([{ "kind": "Secret", "name": "a" }])),
            Some(&Secret::default()),
        );
        let [(field, Published::Secret(secret))] = publication.objects.as_slice() else {
            panic!("one Secret")
        };
        assert_eq!(field, "spec.outputsTo[0]");
        assert_eq!(
            json!(secret.metadata),
            json!({
                "name": "a", "namespace": "shop",
                "labels": { "pulumi.com/component": "stack", "pulumi.com/stack-name": "demo" },
                "ownerReferences": [{
                    "apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "demo", "uid": "stack-uid",
                    "blockOwnerDeletion": true,
                }],
            })
        );
    }
}
