//! Bad input gets the API server's own clear refusal.

use pko_testkit::{StackBuilder, TestNamespace, with_namespace};
use serde_json::{Value, json};

use crate::plane::with_our_crds;

/// Tries to create an object and gives the API server's answer.
async fn refusal(namespace: &TestNamespace, object: Value) -> String {
    let shown = object.to_string();
    match namespace.create_object(object).await {
        Ok(_) => panic!("accepted: {shown}"),
        Err(error) => full_text(&error),
    }
}

/// An error with all that caused it.
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
async fn a_name_of_43_characters_by_both_versions() {
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
            let refused = refusal(namespace, stack(43)).await;
            assert!(
                refused.contains("Stack name must be no more than 42 characters in length."),
                "{refused}"
            );
            namespace.create_object(stack(42)).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn what_is_wrong_is_named() {
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
            let refused = refusal(namespace, object).await;
            for text in expected {
                assert!(refused.contains(text), "{text} is not in: {refused}");
            }
        }
    })
    .await;
}
