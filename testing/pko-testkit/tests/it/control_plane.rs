//! Control planes start, work, and are isolated from each other.

use std::os::unix::fs::symlink;
use std::process::Command;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use pko_testkit::components::BuildEnvironment;
use pko_testkit::{Component, Components, ControlPlane};
use serde_json::{Value, json};

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
}

fn config_maps(plane: &ControlPlane) -> Api<ConfigMap> {
    Api::namespaced(plane.client().unwrap(), "default")
}

#[tokio::test]
async fn concurrent_planes_are_isolated() {
    let (one, two) = tokio::join!(
        ControlPlane::builder().start(),
        ControlPlane::builder().start()
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    config_maps(&one)
        .create(&PostParams::default(), &config_map("here"))
        .await
        .unwrap();

    assert!(config_maps(&one).get_opt("here").await.unwrap().is_some());
    assert!(config_maps(&two).get_opt("here").await.unwrap().is_none());
}

#[tokio::test]
async fn api_server_restart_keeps_data() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let url = plane.url();
    let created = config_maps(&plane)
        .create(&PostParams::default(), &config_map("kept"))
        .await
        .unwrap();
    let mark = plane.audit_position().await.unwrap();
    let processes = plane.process_ids().len();

    plane.stop_api_server().unwrap();
    assert_eq!(plane.process_ids().len(), processes - 1);
    let mut config = plane.config_as("anybody", &[]).unwrap();
    config.default_retry = false;
    let maps: Api<ConfigMap> = Api::default_namespaced(Client::try_from(config).unwrap());
    let error = maps.get("kept").await.unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");

    plane.start_api_server().await.unwrap();
    assert_eq!((plane.url(), plane.process_ids().len()), (url, processes));
    // Also through a client from before
    let kept = config_maps(&plane).get("kept").await.unwrap();
    assert_eq!(kept.metadata.uid, created.metadata.uid);
    let denied = maps.get("kept").await.unwrap_err();
    assert!(matches!(denied, kube::Error::Api(_)), "{denied:?}");
    let requests = plane.requests_since(mark).await.unwrap();
    assert_eq!(requests.count("anybody", "get", "configmaps"), 1);
}

#[tokio::test]
async fn concurrent_tests_share_a_plane() {
    let (one, two) = tokio::join!(ControlPlane::shared(), ControlPlane::shared());
    assert_eq!(one.unwrap().url(), two.unwrap().url());
}

#[tokio::test]
async fn server_version_is_the_pinned_one() {
    let plane = ControlPlane::shared().await.unwrap();
    let version = plane.client().unwrap().apiserver_version().await.unwrap();
    let is_pinned = |line: &str| {
        line.split_whitespace()
            .take(2)
            .eq(["k8s.io/kubernetes", &version.git_version])
    };
    assert!(
        include_str!("../../components/kubernetes/go.mod")
            .lines()
            .any(is_pinned),
        "{version:?}"
    );
    assert_eq!(
        version.git_version.split('.').nth(1),
        Some(version.minor.as_str())
    );
}

#[tokio::test]
async fn kubectl_applies_without_touching_home() {
    let plane = ControlPlane::shared().await.unwrap();
    let manifest = plane.data_dir().join("kubectl-test.yaml");
    std::fs::write(
        &manifest,
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "applied" },
        })
        .to_string(),
    )
    .unwrap();
    let applied = plane
        .kubectl()
        .unwrap()
        .args(["apply", "--server-side", "-f"])
        .arg(&manifest)
        .output()
        .unwrap();
    assert!(
        applied.status.success(),
        "{}",
        String::from_utf8_lossy(&applied.stderr)
    );
    assert_eq!(applied.stdout, b"configmap/applied serverside-applied\n");
    assert!(plane.data_dir().join("home/.kube/cache").is_dir());
}

#[tokio::test]
async fn client_as_user_is_limited_by_rbac() {
    let plane = ControlPlane::shared().await.unwrap();
    let stranger = plane.client_as("stranger", &["one", "two"]).unwrap();
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    let review: Value = stranger.request(request).await.unwrap();
    assert_eq!(review["status"]["userInfo"]["username"], "stranger");
    assert_eq!(
        review["status"]["userInfo"]["groups"],
        json!(["one", "two", "system:authenticated"])
    );

    let error = Api::<ConfigMap>::default_namespaced(stranger)
        .get("any")
        .await
        .unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 403));

    let error = plane
        .client_as("crowd", &["1", "2", "3"])
        .map(drop)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "a client certificate carries at most two groups here; `crowd` has more"
    );
}

#[tokio::test]
async fn kubeconfig_as_user_works_in_kubectl() {
    let plane = ControlPlane::shared().await.unwrap();
    let kubeconfig = plane.kubeconfig_as("somebody", &[]).unwrap();
    let mut kubectl = plane.kubectl().unwrap();
    let output = kubectl
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["auth", "whoami"])
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("somebody"),
        "{output:?}"
    );
}

#[tokio::test]
async fn installed_crds_are_served_immediately() {
    let plane = ControlPlane::shared().await.unwrap();
    let schema = json!({ "openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    }});
    let version = |name: &str, storage: bool| json!({ "name": name, "served": true, "storage": storage, "schema": schema });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets" },
            "versions": [version("v1", true), version("v1alpha1", false)],
        },
    });
    plane
        .install_crds(std::slice::from_ref(&crd))
        .await
        .unwrap();
    plane.install_crds(&[crd]).await.unwrap();

    let manifest = plane.data_dir().join("widget.yaml");
    let widget = json!({ "apiVersion": "example.com/v1alpha1", "kind": "Widget", "metadata": { "name": "w" } });
    std::fs::write(&manifest, widget.to_string()).unwrap();
    let applied = plane
        .kubectl()
        .unwrap()
        .args(["apply", "-f"])
        .arg(&manifest)
        .output()
        .unwrap();
    assert!(
        applied.status.success(),
        "{}",
        String::from_utf8_lossy(&applied.stderr)
    );
}

/// A folder with the real etcd and a kube-apiserver that is a script.
fn with_apiserver(script: &str) -> (tempfile::TempDir, Components) {
    let folder = tempfile::tempdir().unwrap();
    let path = |component: Component| folder.path().join(component.name());
    let real = Components::from_environment().unwrap();
    symlink(real.path(Component::Etcd).unwrap(), path(Component::Etcd)).unwrap();
    symlink(
        real.path(Component::KubeApiserver).unwrap(),
        folder.path().join("real"),
    )
    .unwrap();
    // By another process: this one can't run what it, or a child of this moment, has open
    let write = "printf '#!/bin/sh\n%s' \"$1\" >\"$2\" && chmod +x \"$2\"";
    let mut writer = Command::new("sh");
    writer
        .args(["-c", write, "sh", script])
        .arg(path(Component::KubeApiserver));
    assert!(writer.status().unwrap().success());
    let assets = Some(folder.path().into());
    let components = Components::new(&BuildEnvironment {
        assets,
        ..BuildEnvironment::default()
    });
    (folder, components.unwrap())
}

#[tokio::test]
async fn ended_component_is_reported_with_its_log() {
    let (_folder, components) = with_apiserver("echo 'no, thanks' >&2; exit 3");
    let plane = ControlPlane::builder().components(components).start().await;
    assert_eq!(
        plane.map(drop).unwrap_err().to_string(),
        "kube-apiserver ended (exit status: 3); the end of its log:\n  no, thanks\n"
    );
}

#[tokio::test]
async fn taken_port_is_replaced() {
    // The first time, the port is etcd's
    let script = r#"
for flag; do case $flag in --etcd-servers=*) taken=${flag##*:};; esac; done
if mkdir "$(dirname "$0")/seen"; then set -- "$@" --secure-port="$taken"; fi
exec "$(dirname "$0")/real" "$@"
"#;
    let (folder, components) = with_apiserver(script);
    let plane = ControlPlane::builder()
        .components(components)
        .start()
        .await
        .unwrap();
    assert!(folder.path().join("seen").exists());
    config_maps(&plane)
        .list(&ListParams::default())
        .await
        .unwrap();
}

#[tokio::test]
async fn missing_asset_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let components = Components::new(&BuildEnvironment {
        assets: Some(folder.path().into()),
        ..BuildEnvironment::default()
    });
    let plane = ControlPlane::builder()
        .components(components.unwrap())
        .start()
        .await;
    let error = plane.map(drop).unwrap_err().to_string();
    assert!(error.starts_with("KUBEBUILDER_ASSETS names "), "{error}");
    assert!(error.ends_with("but there is no `etcd` in it"), "{error}");
}
