//! Applies `deploy/quickstart/install.yaml` with `kubectl` to a real API server with its
//! controllers.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use pko_testkit::{ControlPlane, eventually};
use serde_json::Value;

const NAMESPACE: &str = "pulumi-kubernetes-operator";

/// Runs `kubectl` and returns its output.
fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> String {
    let output = plane.kubectl().unwrap().args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}{complaints}");
    assert!(
        complaints.is_empty(),
        "warnings are for users: {complaints}"
    );
    said
}

fn json(plane: &ControlPlane, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["-o", "json"]].concat();
    serde_json::from_str(&kubectl(plane, &arguments)).unwrap()
}

fn may(plane: &ControlPlane, who: &str, what: &[&str]) -> bool {
    let account = format!("--as=system:serviceaccount:{who}");
    let mut command = plane.kubectl().unwrap();
    command.args(["auth", "can-i", &account]).args(what);
    command.output().unwrap().stdout == b"yes\n"
}

#[tokio::test]
async fn install_yaml_applies_and_grants_expected_rights() {
    let plane = ControlPlane::builder();
    let plane = plane.controller_manager(true).start().await.unwrap();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let file = checkout.join("deploy/quickstart/install.yaml");
    let apply = ["apply", "-f", file.to_str().unwrap()];

    let first = kubectl(&plane, &apply);
    assert!(
        first.lines().all(|line| line.ends_with(" created")),
        "{first}"
    );
    let again = kubectl(&plane, &apply);
    assert!(
        again.lines().all(|line| line.ends_with(" unchanged")),
        "{again}"
    );
    assert_eq!(first.lines().count(), again.lines().count());

    kubectl(
        &plane,
        &[
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=2m",
        ],
    );
    let kinds =
        "stacks.pulumi.com,programs.pulumi.com,workspaces.auto.pulumi.com,updates.auto.pulumi.com";
    assert_eq!(json(&plane, &["get", kinds, "-A"])["kind"], "List");
    wait_for_admitted_pod(&plane).await;
    check_rights(&plane);
    services_have_one_selector(&plane);
}

/// The namespace enforces the `restricted` standard, so a pod exists only if it complies.
async fn wait_for_admitted_pod(plane: &ControlPlane) {
    eventually("the operator's pod", async || {
        let pods = json(plane, &["get", "pods", "-n", NAMESPACE]);
        let pod = pods["items"].get(0).cloned();
        let refusal = || json(plane, &["get", "replicasets", "-n", NAMESPACE]).to_string();
        pod.map(|_| ()).ok_or_else(refusal)
    })
    .await
    .unwrap();
}

fn check_rights(plane: &ControlPlane) {
    let manager = format!("{NAMESPACE}:controller-manager");
    for what in [
        vec!["watch", "stacks.pulumi.com", "-A"],
        vec!["create", "statefulsets.apps", "-n", "default"],
        vec![
            "create",
            "serviceaccounts/controller-manager",
            "--subresource=token",
            "-n",
            NAMESPACE,
        ],
        vec!["update", "leases/operator.pulumi.com", "-n", NAMESPACE],
        vec!["create", "tokenreviews.authentication.k8s.io"],
    ] {
        assert!(may(plane, &manager, &what), "{what:?}");
    }
    for what in [
        vec!["list", "secrets", "-A"],
        vec!["create", "pods", "-n", "default"],
        vec![
            "create",
            "serviceaccounts/pulumi",
            "--subresource=token",
            "-n",
            "default",
        ],
        vec!["update", "leases/operator.pulumi.com", "-n", "default"],
    ] {
        assert!(!may(plane, &manager, &what), "{what:?}");
    }
    assert!(may(
        plane,
        "default:pulumi",
        &["create", "tokenreviews.authentication.k8s.io"]
    ));
}

/// All of upstream's names for the metrics Service select the operator.
fn services_have_one_selector(plane: &ControlPlane) {
    for name in [
        "pulumi-kubernetes-operator-metrics",
        "controller-manager-metrics-service",
        NAMESPACE,
    ] {
        let service = json(plane, &["get", "service", name, "-n", NAMESPACE]);
        assert_eq!(
            service["spec"]["selector"]["control-plane"],
            "controller-manager"
        );
        assert!(service["spec"]["clusterIP"].is_string());
    }
}
