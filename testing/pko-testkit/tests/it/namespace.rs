//! A test's namespace: created, printed on failure, removed.

use std::panic::AssertUnwindSafe;
use std::process::Command;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::Api;
use pko_testkit::{ControlPlane, StackBuilder, TestNamespace, with_namespace};
use serde_json::{Value, json};

/// Set for the child process of a test.
const CHILD: &str = "PKO_TESTKIT_FAILING";

async fn fill(namespace: &TestNamespace) {
    let objects = [
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "settings", "finalizers": ["example.com/never"] },
            "data": { "colour": "green" },
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "passwords" },
            "stringData": { "admin": "hunter2" },
        }),
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "name": "it-happened" }, "reason": "Happened",
            "involvedObject": { "kind": "ConfigMap", "namespace": namespace.name() },
        }),
    ];
    for object in objects {
        namespace.create_object(object).await.unwrap();
    }
}

/// Not a test: the failing process of the next test.
#[tokio::test]
async fn failing_test_process() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        fill(namespace).await;
        assert_eq!(namespace.name(), "", "this test fails");
    })
    .await;
}

#[test]
fn failed_test_prints_objects_without_secrets() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "namespace::failing_test_process"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{text}");
    for part in [
        "this test fails",
        "# 4 objects of namespace test-namespace-failing-test-process-",
        "colour: green",
    ] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert!(text.contains("  admin: (hidden)\n"), "{text}");
    assert!(text.contains("reason: Happened\n"), "{text}");
    assert!(
        !text.contains("hunter2") && !text.contains("aHVudGVyMg"),
        "{text}"
    );
}

#[tokio::test]
async fn namespace_is_removed_after_test_and_panic() {
    let plane = ControlPlane::shared().await.unwrap();
    let mut names = Vec::new();
    with_namespace(&plane, async |namespace| {
        fill(namespace).await;
        names.push(namespace.name().to_owned());
    })
    .await;
    let panicking = with_namespace(&plane, async |namespace| {
        fill(namespace).await;
        names.push(namespace.name().to_owned());
        assert_eq!(namespace.name(), "", "as a test does");
    });
    assert!(AssertUnwindSafe(panicking).catch_unwind().await.is_err());

    let client = plane.client().unwrap();
    for name in names {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        assert!(
            namespaces.get_opt(&name).await.unwrap().is_none(),
            "{name} is still there"
        );
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &name);
        assert!(
            maps.get_opt("settings").await.unwrap().is_none(),
            "settings are still there"
        );
    }
}

/// Just enough of a Stack to have a status.
fn stacks() -> Value {
    let schema = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "stacks.pulumi.com" },
        "spec": {
            "group": "pulumi.com", "scope": "Namespaced",
            "names": { "kind": "Stack", "plural": "stacks", "singular": "stack" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

#[tokio::test]
async fn test_leaving_invalid_status_fails() {
    let plane = ControlPlane::builder().start().await.unwrap();
    plane.install_crds(&[stacks()]).await.unwrap();
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "True", "reason": "Because", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let stack = |conditions: &[Value]| {
        let status = json!({ "observedGeneration": 1, "conditions": conditions });
        StackBuilder::new("demo").status(status).build()
    };
    let good = stack(&[condition("Ready")]);
    let bad = stack(&[condition("Ready"), condition("Stalled")]);

    with_namespace(&plane, async |namespace| {
        namespace.create_object(good).await.unwrap();
    })
    .await;
    with_namespace(&plane, async |namespace| {
        namespace.skip_status_check();
        namespace.create_object(bad.clone()).await.unwrap();
    })
    .await;
    let failing = with_namespace(&plane, async |namespace| {
        namespace.create_object(bad.clone()).await.unwrap();
    });
    let panic = AssertUnwindSafe(failing).catch_unwind().await.unwrap_err();
    assert_eq!(
        panic.downcast_ref::<String>().unwrap(),
        "the test passed, but leaves statuses that break the rules of kstatus:\n  \
         Stack `demo`: Ready and Stalled are True at once"
    );
}

#[tokio::test]
async fn pod_with_status_is_created_without_controllers() {
    let plane = ControlPlane::shared().await.unwrap();
    with_namespace(&plane, async |namespace| {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "pod" },
            "spec": { "containers": [{ "name": "c", "image": "none" }] },
            "status": { "phase": "Running" },
        });
        let created = namespace.create_object(pod).await.unwrap();
        assert_eq!(created["status"]["phase"], "Running");
        assert!(
            namespace
                .api::<Pod>()
                .get_opt("pod")
                .await
                .unwrap()
                .is_some()
        );
    })
    .await;
}
