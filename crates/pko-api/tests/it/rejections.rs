//! The API server rejects invalid objects with a clear error.

use kube::api::{Patch, PatchParams};
use pko_api::Stack;
use pko_testkit::{ControlPlane, StackBuilder, TestNamespace, eventually, with_namespace};
use serde_json::{Value, json};

use crate::plane::with_our_crds;

/// Tries to create an object, and returns the API server's error.
async fn rejection(namespace: &TestNamespace, object: Value) -> String {
    let shown = object.to_string();
    match namespace.create_object(object).await {
        Ok(_) => panic!("accepted: {shown}"),
        Err(error) => full_text(&error),
    }
}

/// An error with its causes.
fn full_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[tokio::test]
async fn long_stack_name_is_rejected_in_both_versions() {
    let plane = with_our_crds().await;
    with_namespace(&plane, async |namespace| {
        for version in ["v1", "v1alpha1"] {
            let stack = |length: usize| {
                let name = format!("{}-{version}", "n".repeat(length - version.len() - 1));
                StackBuilder::new(&name)
                    .stack("dev")
                    .set("/apiVersion", format!("pulumi.com/{version}"))
                    .build()
            };
            let error = rejection(namespace, stack(43)).await;
            assert!(
                error.contains("Stack name must be no more than 42 characters in length."),
                "{error}"
            );
            namespace.create_object(stack(42)).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn rejection_names_field_and_fix() {
    let program = |body: Value| json!({ "apiVersion": "pulumi.com/v1", "kind": "Program", "metadata": { "name": "bad" }, "program": body });
    let cases = [
        (
            program(json!({ "resources": { "bucket": { "properties": {} } } })),
            vec!["program.resources.bucket.type", "Required value"],
        ),
        (
            program(json!({ "resources": { "bucket": { "type": "" } } })),
            vec!["program.resources.bucket.type", "at least 1 char"],
        ),
        (
            program(json!({ "configuration": { "size": { "type": "Complex" } } })),
            vec!["program.configuration.size.type", "Complex", "List<Number>"],
        ),
        (
            StackBuilder::new("bad")
                .stack("dev")
                .set("/spec/workspaceReclaimPolicy", "Keep")
                .build(),
            vec!["spec.workspaceReclaimPolicy", "Keep", "Retain", "Delete"],
        ),
        (
            StackBuilder::new("bad").set("/spec/branch", "main").build(),
            vec!["spec.stack", "Required value"],
        ),
        (
            StackBuilder::new("bad")
                .stack("dev")
                .set("/spec/targets", "one")
                .build(),
            vec!["spec.targets", "must be of type array"],
        ),
    ];
    let plane = with_our_crds().await;
    with_namespace(&plane, async |namespace| {
        for (object, expected) in cases {
            let error = rejection(namespace, object).await;
            for text in expected {
                assert!(error.contains(text), "{text} is not in: {error}");
            }
        }
    })
    .await;
}

fn stack(fields: &Value) -> Value {
    let mut stack = StackBuilder::new("bad").stack("dev").build();
    let fields = fields.as_object().unwrap().clone();
    stack["spec"].as_object_mut().unwrap().extend(fields);
    stack
}

/// Specs that upstream's operator accepts and then always stalls on.
fn impossible_specs() -> [(Value, &'static str); 5] {
    let old = |kind: &str| json!({ "a": { "type": kind } });
    let deprecated =
        "ref types \"Env\" and \"FS\" are deprecated: use Secret, ConfigMap or Literal";
    let deprecated_secret = "ref types \"Env\" and \"FS\" are deprecated: use Secret or Literal";
    [
        (
            json!({ "projectRepo": "https://x/y/z", "branch": "main", "commit": "abc" }),
            "only one of \"commit\" or \"branch\" should be specified",
        ),
        (json!({ "envRefs": old("Env") }), deprecated),
        (json!({ "envRefs": old("FS") }), deprecated),
        (json!({ "secretsRef": old("Env") }), deprecated_secret),
        (json!({ "secretsRef": old("FS") }), deprecated_secret),
    ]
}

#[tokio::test]
async fn impossible_spec_is_rejected_in_both_versions() {
    let plane = with_our_crds().await;
    with_namespace(&plane, async |namespace| {
        for (fields, message) in impossible_specs() {
            for version in ["v1", "v1alpha1"] {
                let mut stack = stack(&fields);
                stack["apiVersion"] = json!(format!("pulumi.com/{version}"));
                let error = rejection(namespace, stack).await;
                assert!(error.contains(message), "{error}");
            }
        }
        let literal = json!({ "type": "Literal", "literal": { "value": "x" } });
        for (name, fields) in [
            ("branch", json!({ "branch": "main", "commit": "" })),
            ("commit", json!({ "branch": "", "commit": "abc" })),
            // Only the type matters: upstream ignored the rest.
            ("rest", json!({ "envRefs": { "A": { "type": "Literal", "literal": { "value": "x" }, "env": { "name": "B" } } } })),
            ("literal", json!({ "envRefs": { "A": literal }, "secretsRef": { "a": literal } })),
        ] {
            let mut good = stack(&fields);
            good["metadata"]["name"] = json!(name);
            namespace.create_object(good).await.unwrap();
        }
    })
    .await;
}

/// A Stack that upstream's CRD accepted must remain deletable.
#[tokio::test]
async fn stack_older_than_a_rule_can_be_updated_and_deleted() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let mut without_rules = json!(pko_api::crd::all());
    remove_rules(&mut without_rules);
    let without_rules: Vec<Value> = serde_json::from_value(without_rules).unwrap();
    plane.install_crds(&without_rules).await.unwrap();
    with_namespace(&plane, async |namespace| {
        for (index, (fields, _)) in impossible_specs().into_iter().enumerate() {
            let mut bad = stack(&fields);
            bad["metadata"]["name"] = json!(format!("bad-{index}"));
            namespace.create_object(bad).await.unwrap();
        }
        plane.install_crds(&pko_api::crd::all()).await.unwrap();
        eventually("the rules to be at work", async || {
            let error = namespace.create_object(stack(&impossible_specs()[0].0)).await;
            error.err().map(drop).ok_or("taken")
        })
        .await
        .unwrap();
        let stacks = namespace.api::<Stack>();
        for index in 0..impossible_specs().len() {
            let name = format!("bad-{index}");
            for patch in [
                json!({ "metadata": { "finalizers": ["finalizer.stack.pulumi.com"] } }),
                json!({ "metadata": { "annotations": { "pulumi.com/reconciliation-request": "1" } } }),
                json!({ "spec": { "branch": "", "envRefs": null, "secretsRef": null } }),
                json!({ "metadata": { "finalizers": [] } }),
            ] {
                let merge = Patch::Merge(&patch);
                let patched = stacks.patch(&name, &PatchParams::default(), &merge).await;
                assert!(patched.is_ok(), "{name}: {patch}: {patched:?}");
            }
        }
    })
    .await;
}

fn remove_rules(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("x-kubernetes-validations");
            fields.values_mut().for_each(remove_rules);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_rules),
        _ => {}
    }
}

#[tokio::test]
async fn added_fields_accept_supported_values() {
    let target = |kind: &str, name: &str| json!({ "kind": kind, "name": name });
    let plane = with_our_crds().await;
    with_namespace(&plane, async |namespace| {
        for (fields, field) in [
            (json!({ "suspend": "yes" }), "spec.suspend"),
            (json!({ "retryLimit": -2 }), "spec.retryLimit"),
            (json!({ "timeoutSeconds": 0 }), "spec.timeoutSeconds"),
            (json!({ "timeoutSeconds": "1h" }), "spec.timeoutSeconds"),
            (json!({ "successfulUpdatesHistoryLimit": -1 }), "spec.successfulUpdatesHistoryLimit"),
            (json!({ "failedUpdatesHistoryLimit": -1 }), "spec.failedUpdatesHistoryLimit"),
            (json!({ "removeStackOnDestroy": "yes" }), "spec.removeStackOnDestroy"),
            (json!({ "outputsTo": [target("Pod", "a")] }), "spec.outputsTo[0].kind"),
            (json!({ "outputsTo": [{ "kind": "Secret" }] }), "spec.outputsTo[0].name"),
            (json!({ "outputsTo": [{ "name": "a" }] }), "spec.outputsTo[0].kind"),
            (json!({ "outputsTo": [target("Secret", "a"), target("Secret", "a")] }), "spec.outputsTo[1]"),
            (json!({ "outputsTo": [{ "kind": "Secret", "name": "a", "keys": { "b": 1 } }] }), "spec.outputsTo[0].keys.b"),
        ] {
            let error = rejection(namespace, stack(&fields)).await;
            assert!(error.contains(field), "{fields}: {error}");
        }
        let all = json!({
            "suspend": true, "retryLimit": -1, "timeoutSeconds": 1, "successfulUpdatesHistoryLimit": 0,
            "failedUpdatesHistoryLimit": 0, "removeStackOnDestroy": true,
            "outputsTo": [target("Secret", "a"), target("ConfigMap", "a"), target("Secret", "b")],
        });
        namespace.create_object(stack(&all)).await.unwrap();
        let stored = namespace.api::<Stack>().get("bad").await.unwrap();
        let stored = serde_json::to_value(stored.spec).unwrap();
        for (field, value) in all.as_object().unwrap() {
            assert_eq!(&stored[field], value, "{field}");
        }
    })
    .await;
}
