//! Every object that upstream leaves in a cluster decodes, and is written back as it was.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{ConfigMap, Event, Pod, Secret, Service, ServiceAccount},
};
use pko_api::{Program, Stack, Update, Workspace};
use pko_testkit::{fixtures, shared_folder};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// What a kind's type makes of an object.
fn read_and_written<K: DeserializeOwned + Serialize>(
    object: &Value,
) -> Result<Value, serde_json::Error> {
    serde_json::from_value::<K>(object.clone()).and_then(serde_json::to_value)
}

fn through_its_type(object: &Value) -> Result<Value, serde_json::Error> {
    match object["kind"].as_str().unwrap() {
        "Stack" => read_and_written::<Stack>(object),
        "Program" => read_and_written::<Program>(object),
        "Workspace" => read_and_written::<Workspace>(object),
        "Update" => read_and_written::<Update>(object),
        "ConfigMap" => read_and_written::<ConfigMap>(object),
        "ControllerRevision" => read_and_written::<ControllerRevision>(object),
        "Event" => read_and_written::<Event>(object),
        "Pod" => read_and_written::<Pod>(object),
        "Secret" => read_and_written::<Secret>(object),
        "Service" => read_and_written::<Service>(object),
        "ServiceAccount" => read_and_written::<ServiceAccount>(object),
        "StatefulSet" => read_and_written::<StatefulSet>(object),
        other => panic!("no type for {other}"),
    }
}

#[test]
fn upstream_cluster_objects_decode() {
    let Some(folder) = shared_folder("fixtures/upstream-cluster") else {
        return;
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for object in fixtures::load(&folder).unwrap() {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let name = format!("{kind} {}", object["metadata"]["name"]);
        let written = through_its_type(&object).unwrap_or_else(|error| panic!("{name}: {error}"));
        if ["Stack", "Program", "Workspace", "Update"].contains(&kind.as_str()) {
            assert_eq!(written, object, "{name}");
        }
        *counts.entry(kind).or_default() += 1;
    }
    assert_eq!(counts.len(), 12, "{counts:?}");
}
