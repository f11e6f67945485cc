//! Kinds that a program defines itself, and those of this operator.

use std::thread;

use pko_testkit::{TestNamespace, with_namespace};
use serde_json::{Value, json};

use super::{Driver, plane};

const DEFINITION: &str = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition";

/// A group of its own for each test, as definitions are in no namespace.
fn group(namespace: &TestNamespace) -> String {
    format!("{}.example.com", namespace.name())
}

fn definition(group: &str) -> Value {
    json!({
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "x_kubernetes_preserve_unknown_fields": true},
                    "status": {"type": "object", "x_kubernetes_preserve_unknown_fields": true},
                }}}}],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn crd_and_its_objects_can_share_a_program() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let group = group(namespace);
        let driver = Driver::new(&plane, namespace.name());
        let token = format!("kubernetes:{group}/v1:Widget");
        let inputs = json!({"metadata": {"name": "one"}, "spec": {"size": 3}});
        // a preview takes the kind on trust
        driver.preview(&token, "one", &inputs).unwrap();
        let generic = "kubernetes:apiextensions.k8s.io:CustomResource";
        let other =
            json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "spec": {"size": 4}});
        let (widget, other, definition) = thread::scope(|scope| {
            let early = scope.spawn(|| driver.create(&token, "one", &inputs).unwrap());
            let other = scope.spawn(|| driver.create(generic, "two", &other).unwrap());
            let definition = driver
                .create(DEFINITION, "kind", &definition(&group))
                .unwrap();
            (early.join().unwrap(), other.join().unwrap(), definition)
        });
        assert_eq!(widget.live()["spec"], json!({"size": 3}));
        assert_eq!(other.live()["spec"], json!({"size": 4}));
        assert_eq!(
            driver.diff(&definition, &self::definition(&group)).keys(),
            Vec::<String>::new()
        );
        let changed = driver
            .update(
                &widget,
                &json!({"metadata": {"name": "one"}, "spec": {"size": 5}}),
            )
            .unwrap();
        assert_eq!(changed.live()["spec"], json!({"size": 5}));

        driver.delete(&definition).unwrap();
        // with the kind its objects are gone
        assert!(driver.refresh(&changed).is_none());
        driver.delete(&changed).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn program_can_create_secret_and_stack() {
    let plane = plane().await;
    let crd = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/crds/pulumi.com_stacks.yaml"
    );
    let applied = plane
        .kubectl()
        .unwrap()
        .args(["apply", "--server-side", "-f", crd])
        .output()
        .unwrap();
    assert!(applied.status.success(), "{applied:?}");
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let token = json!({"metadata": {"name": "token"}, "stringData": {"token": "hush"}});
        let secret = driver.create("kubernetes:core/v1:Secret", "token", &token).unwrap();
        let stack = json!({"metadata": {"name": "child"}, "spec": {
            "stack": "organization/child/dev", "projectRepo": "https://example.com/repo.git", "branch": "main",
            "envRefs": {"PULUMI_ACCESS_TOKEN": {"type": "Secret", "secret": {"name": "token", "key": "token"}}},
        }});
        let stack_token = "kubernetes:pulumi.com/v1:Stack";
        driver.preview(stack_token, "child", &stack).unwrap();
        let made = driver.create(stack_token, "child", &stack).unwrap();
        assert_eq!(made.id, format!("{}/child", namespace.name()));
        assert_eq!(driver.diff(&made, &stack).keys(), Vec::<String>::new());
        let wrong = json!({"spec": {"stack": "a", "brnch": "main"}});
        let refusal = driver.create(stack_token, "wrong", &wrong).unwrap_err().to_string();
        assert!(refusal.contains("brnch"), "{refusal}");
        driver.delete(&made).unwrap();
        driver.delete(&secret).unwrap();
        namespace.skip_status_check();
    })
    .await;
}
