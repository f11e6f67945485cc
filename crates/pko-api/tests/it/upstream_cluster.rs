//! Every object that upstream leaves in a cluster decodes and is written back unchanged.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{ConfigMap, Event, Pod, Secret, Service, ServiceAccount},
};
use pko_api::{Program, Stack, Update, Workspace};
use pko_testkit::{fixtures, shared_folder};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Decodes and serializes the object as its kind.
fn round_trip<K: DeserializeOwned + Serialize>(object: &Value) -> Result<Value, serde_json::Error> {
    serde_json::from_value::<K>(object.clone()).and_then(serde_json::to_value)
}

fn round_trip_by_kind(object: &Value) -> Result<Value, serde_json::Error> {
    match object["kind"].as_str().unwrap() {
        "Stack" => round_trip::<Stack>(object),
        "Program" => round_trip::<Program>(object),
        "Workspace" => round_trip::<Workspace>(object),
        "Update" => round_trip::<Update>(object),
        "ConfigMap" => round_trip::<ConfigMap>(object),
        "ControllerRevision" => round_trip::<ControllerRevision>(object),
        "Event" => round_trip::<Event>(object),
        "Pod" => round_trip::<Pod>(object),
        "Secret" => round_trip::<Secret>(object),
        "Service" => round_trip::<Service>(object),
        "ServiceAccount" => round_trip::<ServiceAccount>(object),
        "StatefulSet" => round_trip::<StatefulSet>(object),
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
        let written = round_trip_by_kind(&object).unwrap_or_else(|error| panic!("{name}: {error}"));
        if ["Stack", "Program", "Workspace", "Update"].contains(&kind.as_str()) {
            assert_eq!(written, object, "{name}");
        }
        *counts.entry(kind).or_default() += 1;
    }
    assert_eq!(counts.len(), 12, "{counts:?}");
}
