//! A test's namespace: there for it, shown when it fails, gone after it.

use std::panic::AssertUnwindSafe;
use std::process::Command;

use futures::FutureExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::Api;
use pko_testkit::{ControlPlane, TestNamespace, with_namespace};
use serde_json::json;

/// Tells a child process of a test that it is one.
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

/// Not a test of its own: one that fails, run by the next one.
#[tokio::test]
async fn failing() {
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
fn a_failing_test_shows_its_objects_but_no_secrets() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "namespace::failing"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{text}");
    for part in [
        "this test fails",
        "# 4 objects of namespace test-namespace-failing-",
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
async fn a_namespace_is_gone_after_its_test_however_that_ends() {
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

#[tokio::test]
async fn pods_and_statuses_can_be_created_without_controllers() {
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
