//! What is stored of a pod is what Kubernetes' own types write: each field that says nothing is
//! left out, or kept, by both.

use pko_core::stack::settle_pod;
use serde_json::{Value, json};

use crate::oracle::oracle;

/// The schema of a pod's spec.
fn schema() -> Value {
    let definitions = pko_api::crd::all();
    let is_workspace = |definition: &&Value| definition["spec"]["names"]["kind"] == "Workspace";
    let workspace = definitions.iter().find(is_workspace).unwrap();
    let schema = "/spec/versions/0/schema/openAPIV3Schema";
    let pod = "/properties/spec/properties/podTemplate/properties/spec";
    let schema = workspace.pointer(&format!("{schema}{pod}"));
    schema.unwrap().clone()
}

/// The pointers of all fields below this one, with a value that says nothing for each.
fn silent_fields(schema: &Value, pointer: &str, found: &mut Vec<(String, Value)>) {
    match schema["type"].as_str() {
        Some("string") => found.push((pointer.to_owned(), json!(""))),
        Some("boolean") => found.push((pointer.to_owned(), json!(false))),
        Some("integer" | "number") => found.push((pointer.to_owned(), json!(0))),
        Some("array") => {
            found.push((pointer.to_owned(), json!([])));
            let items = &schema["items"];
            // In a list of plain values each of them counts.
            if items["type"] == json!("object") {
                silent_fields(items, &format!("{pointer}/0"), found);
            }
        }
        Some("object") => {
            if !pointer.is_empty() && !pointer.ends_with("/0") {
                found.push((pointer.to_owned(), json!({})));
            }
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                silent_fields(field, &format!("{pointer}/{name}"), found);
            }
        }
        // Amounts and ports, which are texts and numbers at once.
        _ => {}
    }
}

/// A pod in which only this field is set.
fn with(pointer: &str, value: &Value) -> Value {
    let parts = pointer.trim_start_matches('/').rsplit('/');
    parts.fold(value.clone(), |inner, part| {
        if part == "0" {
            json!([inner])
        } else {
            json!({ part: inner })
        }
    })
}

#[test]
fn empty_pod_fields_are_omitted_as_kubernetes_does() {
    let mut fields = Vec::new();
    silent_fields(&schema(), "", &mut fields);
    assert!(fields.len() > 500, "only {} fields", fields.len());
    // An object's own times and names are not a pod's.
    fields.retain(|(pointer, _)| !pointer.contains("/volumeClaimTemplate/metadata"));
    let pods = fields.iter().map(|(pointer, value)| with(pointer, value));
    let pods: Vec<Value> = pods.collect();
    let questions = pods.iter().map(|pod| json!({ "pod": pod }));
    let answers = oracle(&questions.collect::<Vec<_>>());
    assert_eq!(answers.len(), pods.len());
    let mut wrong = Vec::new();
    for (((pointer, _), mut pod), answer) in fields.iter().zip(pods).zip(answers) {
        assert_eq!(answer["error"], json!(null), "{pointer}");
        settle_pod(pod.as_object_mut().unwrap());
        let is_kept = |pod: &Value| pod.pointer(pointer).is_some();
        if is_kept(&pod) != is_kept(&answer["merged"]) {
            wrong.push(format!("{pointer}: {} is {pod}", answer["merged"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
