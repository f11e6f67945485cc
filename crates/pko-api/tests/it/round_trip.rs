//! A sample of each kind with every field survives the API server and our types unchanged.

use std::collections::BTreeSet;

use pko_api::{Program, Stack, Update, Workspace, pulumi::v1alpha1};
use pko_testkit::{TestNamespace, fixtures, with_namespace};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::plane::with_our_crds;

/// Schemas below these are Kubernetes' own or those of partial objects. The samples show that they
/// exist, not each of their fields.
const BEYOND_OUR_TYPES: [&str; 9] = [
    "spec.env",
    "spec.envFrom",
    "spec.initContainers",
    "spec.podTemplate.spec",
    "spec.resources",
    "spec.updateTemplate",
    "spec.workspaceTemplate",
    "metadata",
    "kind",
];

fn sample(text: &str) -> Value {
    let objects = fixtures::parse(text).unwrap();
    let [object] = &objects[..] else {
        panic!("one object")
    };
    object.clone()
}

/// Creates the sample with its status, reads it, and compares.
async fn check_round_trip<K>(namespace: &TestNamespace, text: &str)
where
    K: Serialize + DeserializeOwned,
{
    let sample = sample(text);
    let name = sample["metadata"]["name"].as_str().unwrap();
    let created = namespace.create_object(sample.clone()).await.unwrap();
    let api = namespace.api_of(&sample).await.unwrap();
    let mut with_status = created;
    with_status["status"] = sample["status"].clone();
    let with_status = serde_json::from_value(with_status).unwrap();
    api.replace_status(name, &kube::api::PostParams::default(), &with_status)
        .await
        .unwrap();

    let stored = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
    for part in ["spec", "program", "status"] {
        assert_eq!(
            stored.get(part),
            sample.get(part),
            "{name}: what the API server stored"
        );
    }
    let typed: K = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(
        serde_json::to_value(typed).unwrap(),
        stored,
        "{name}: what our types make of it"
    );
}

#[tokio::test]
async fn fields_survive_round_trip() {
    let plane = with_our_crds().await;
    with_namespace(&plane, async |namespace| {
        // The samples have every field, even fields that exclude each other
        namespace.skip_status_check();
        check_round_trip::<Stack>(namespace, include_str!("samples/stack.yaml")).await;
        check_round_trip::<v1alpha1::LegacyStack>(
            namespace,
            include_str!("samples/legacy_stack.yaml"),
        )
        .await;
        check_round_trip::<Program>(namespace, include_str!("samples/program.yaml")).await;
        check_round_trip::<Workspace>(namespace, include_str!("samples/workspace.yaml")).await;
        check_round_trip::<Update>(namespace, include_str!("samples/update.yaml")).await;
    })
    .await;
}

/// The paths of a schema's fields.
fn fields_of_schema(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        // Misspelled fields exist only to be rejected.
        if name.contains('_') {
            continue;
        }
        found.insert(path.clone());
        if !BEYOND_OUR_TYPES.contains(&path.as_str()) {
            fields_of_schema(property, &path, found);
        }
    }
    for child in ["items", "additionalProperties"] {
        if let Some(child) = schema.get(child) {
            fields_of_schema(child, &format!("{path}.*"), found);
        }
    }
}

/// The paths of an object's fields, with `*` for an item of a list or any key of a map.
fn fields_of_object(object: &Value, path: &str, found: &mut BTreeSet<String>) {
    found.insert(path.to_owned());
    let children: Vec<(String, &Value)> = match object {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| [(name.clone(), value), ("*".into(), value)])
            .collect(),
        Value::Array(items) => items.iter().map(|item| ("*".to_owned(), item)).collect(),
        _ => return,
    };
    for (name, child) in children {
        let path = if path.is_empty() {
            name
        } else {
            format!("{path}.{name}")
        };
        fields_of_object(child, &path, found);
    }
}

#[test]
fn samples_use_all_fields() {
    let samples: Vec<Value> = [
        include_str!("samples/stack.yaml"),
        include_str!("samples/legacy_stack.yaml"),
        include_str!("samples/program.yaml"),
        include_str!("samples/workspace.yaml"),
        include_str!("samples/update.yaml"),
    ]
    .map(sample)
    .into();
    let mut versions = 0;
    for crd in pko_api::crd::all() {
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let api_version = format!(
                "{}/{}",
                crd["spec"]["group"].as_str().unwrap(),
                version["name"].as_str().unwrap()
            );
            let sample = samples
                .iter()
                .find(|sample| {
                    sample["apiVersion"] == *api_version
                        && sample["kind"] == crd["spec"]["names"]["kind"]
                })
                .unwrap();
            let (mut expected, mut used) = (BTreeSet::new(), BTreeSet::new());
            fields_of_schema(&version["schema"]["openAPIV3Schema"], "", &mut expected);
            fields_of_object(sample, "", &mut used);
            let missing: Vec<_> = expected
                .difference(&used)
                .filter(|field| !is_other_selector(field))
                .collect();
            assert!(
                missing.is_empty(),
                "{api_version} {}: {missing:#?}",
                crd["spec"]["names"]["kind"]
            );
            versions += 1;
        }
    }
    assert_eq!(versions, samples.len());
}

/// A credential is always in a Secret, and `envRefs` in the sample has every selector once.
fn is_other_selector(field: &str) -> bool {
    let credentials = field.starts_with("spec.gitAuth.") || field.starts_with("spec.secretsRef.");
    credentials
        && ["configMap", "env", "filesystem", "literal", "namespace"]
            .iter()
            .any(|selector| field.split('.').any(|part| part == *selector))
}
