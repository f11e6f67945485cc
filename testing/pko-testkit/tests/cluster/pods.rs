//! Pods, Services, StatefulSets, volumes and images on a real node.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Api;
use pko_testkit::cluster::PAUSE_IMAGE;
use pko_testkit::{Cluster, eventually};
use serde_json::{Value, json};

/// Applies objects as a user does.
pub(crate) fn apply(cluster: &Cluster, objects: &[Value]) -> Result<(), String> {
    let mut kubectl = cluster.kubectl().unwrap();
    let mut child = kubectl
        .args(["apply", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    let mut input = child.stdin.take().unwrap();
    input.write_all(list.to_string().as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(complaint)
}

pub(crate) fn namespace(name: &str, level: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": name, "labels": { "pod-security.kubernetes.io/enforce": level } },
    })
}

/// The spec of a pod with one container, valid under restricted Pod Security.
fn spec(image: &str, arguments: &[&str]) -> Value {
    json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 2,
        "automountServiceAccountToken": true,
        "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [{
            "name": "only", "image": image, "imagePullPolicy": "Never", "args": arguments,
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        }],
    })
}

pub(crate) fn pod(namespace: &str, name: &str, image: &str, arguments: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "labels": { "app": name } },
        "spec": spec(image, arguments),
    })
}

/// Waits until a pod is in a phase.
pub(crate) async fn wait_for(cluster: &Cluster, namespace: &str, name: &str, phase: &str) -> Pod {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await.unwrap(), namespace);
    eventually(format!("pod {name} to be {phase}"), async || {
        let pod = pods.get(name).await.map_err(|error| error.to_string())?;
        let status = pod.status.clone().unwrap_or_default();
        if status.phase.as_deref() == Some(phase) {
            return Ok(pod);
        }
        Err(serde_json::to_string(&status).unwrap())
    })
    .await
    .unwrap()
}

/// Waits until a claim has its volume. A pod that the scheduler sees before that may wait for
/// minutes.
async fn wait_until_bound(cluster: &Cluster, namespace: &str, name: &str) {
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(cluster.client().await.unwrap(), namespace);
    eventually(format!("claim {name} to be bound"), async || {
        let claim = claims.get(name).await.map_err(|error| error.to_string())?;
        let phase = claim.status.and_then(|status| status.phase);
        let phase = phase.unwrap_or_default();
        if phase == "Bound" { Ok(()) } else { Err(phase) }
    })
    .await
    .unwrap();
}

/// Runs a pod until it succeeds and returns its log.
async fn outcome(cluster: &Cluster, namespace: &str, name: &str, arguments: &[&str]) -> String {
    apply(cluster, &[pod(namespace, name, PAUSE_IMAGE, arguments)]).unwrap();
    wait_for(cluster, namespace, name, "Succeeded").await;
    let said = cluster.pod_logs(namespace, name, None, false).await;
    said.unwrap().trim().to_owned()
}

/// Checks that a name does not resolve in a pod, with an immediate response.
async fn assert_name_is_unknown(cluster: &Cluster, namespace: &str, pod_name: &str, name: &str) {
    let lookup = pod(namespace, pod_name, PAUSE_IMAGE, &["lookup", name]);
    apply(cluster, &[lookup]).unwrap();
    wait_for(cluster, namespace, pod_name, "Failed").await;
    let log = cluster.pod_logs(namespace, pod_name, None, false).await;
    let log = log.unwrap();
    assert!(log.contains("no such host"), "{name}: {log}");
}

fn service(namespace: &str, name: &str, app: &str, more: &Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "selector": { "app": app }, "ports": [{ "name": "text", "port": 80, "targetPort": 8080 }] },
    });
    let spec = service.get_mut("spec").and_then(Value::as_object_mut);
    spec.unwrap().extend(more.as_object().unwrap().clone());
    service
}

pub(crate) async fn pods_reach_services_by_name(cluster: &Cluster) {
    let server = pod("talk", "server", PAUSE_IMAGE, &["serve", ":8080", "hello"]);
    apply(
        cluster,
        &[
            namespace("talk", "restricted"),
            service("talk", "web", "server", &json!({})),
            server,
        ],
    )
    .unwrap();
    wait_for(cluster, "talk", "server", "Running").await;
    outcome(cluster, "talk", "api", &["connect", "10.96.0.1:443"]).await;
    let name = "kubernetes.default.svc.cluster.local";
    assert_eq!(
        outcome(cluster, "talk", "lookup", &["lookup", name]).await,
        "10.96.0.1"
    );
    // By the short name too, which is looked for where the pod is
    assert_eq!(
        outcome(cluster, "talk", "reader", &["read", "web:80"]).await,
        "hello"
    );
    assert_name_is_unknown(cluster, "talk", "outside", "example.test").await;
    assert_name_is_unknown(cluster, "talk", "missing", "db").await;
    // Also from outside, and by way of the kubelet
    let read = cluster.run_kubectl(&[
        "-n", "talk", "exec", "server", "--", "/pause", "read", "web:80",
    ]);
    assert_eq!(read.unwrap().trim(), "hello");
    let words = ["-n", "talk", "get", "pods"].map(str::to_owned);
    let inside = cluster
        .command("kubectl", &words)
        .unwrap()
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&inside.stdout).contains("server"),
        "{inside:?}"
    );
    let argument = "hello".to_owned();
    let mut processes = cluster.node_processes().into_iter();
    assert!(processes.any(|process| process.arguments.contains(&argument)));
    cluster
        .run_kubectl(&["delete", "namespace", "talk"])
        .unwrap();
    assert!(cluster.run_kubectl(&["get", "namespace", "talk"]).is_err());
    let mut processes = cluster.node_processes().into_iter();
    assert!(!processes.any(|process| process.arguments.contains(&argument)));
}

pub(crate) async fn stateful_set_pods_have_dns_names(cluster: &Cluster) {
    let stateful_set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": "set", "namespace": "sets" },
        "spec": {
            "serviceName": "set",
            "replicas": 2,
            "selector": { "matchLabels": { "app": "set" } },
            "template": { "metadata": { "labels": { "app": "set" } }, "spec": {
                "terminationGracePeriodSeconds": 2,
                "containers": [{ "name": "only", "image": PAUSE_IMAGE, "args": ["serve", ":8080", "hello"] }],
            } },
        },
    });
    let headless = service("sets", "set", "set", &json!({ "clusterIP": "None" }));
    apply(
        cluster,
        &[namespace("sets", "baseline"), headless, stateful_set],
    )
    .unwrap();
    let rollout = [
        "-n",
        "sets",
        "rollout",
        "status",
        "statefulset/set",
        "--timeout=3m",
    ];
    cluster.run_kubectl(&rollout).unwrap();
    let mut addresses = Vec::new();
    for name in ["set-0", "set-1"] {
        let pod = wait_for(cluster, "sets", name, "Running").await;
        addresses.push(pod.status.unwrap().pod_ip.unwrap());
    }
    let address = addresses[1].clone();
    addresses.sort();
    assert_eq!(
        outcome(cluster, "sets", "all", &["lookup", "set"]).await,
        addresses.join(" "),
        "the headless Service has the addresses of both pods"
    );
    assert_name_is_unknown(cluster, "sets", "absent", "set-7.set").await;
    assert_eq!(
        outcome(cluster, "sets", "lookup", &["lookup", "set-1.set"]).await,
        address
    );
    let said = outcome(
        cluster,
        "sets",
        "reader",
        &["read", "set-1.set.sets.svc.cluster.local:8080"],
    );
    assert_eq!(said.await, "hello");
    cluster
        .run_kubectl(&["delete", "namespace", "sets", "--wait=false"])
        .unwrap();
}

/// A volume is a folder of the host, so a test can write files for a pod.
pub(crate) async fn pods_use_persistent_volumes(cluster: &Cluster) {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(
        cluster.folder().join("node-init"),
        folder.path().join("program"),
    )
    .unwrap();
    let class = json!("by-hand");
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "by-hand" },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "hostPath": { "path": folder.path() },
        },
    });
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "state", "namespace": "files" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    let user = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "user", "namespace": "files" },
        "spec": {
            "restartPolicy": "Never",
            "volumes": [{ "name": "state", "persistentVolumeClaim": { "claimName": "state" } }],
            "containers": [{
                "name": "only", "image": PAUSE_IMAGE, "command": ["/state/program", "lookup", "localhost"],
                "volumeMounts": [{ "name": "state", "mountPath": "/state" }],
            }],
        },
    });
    apply(cluster, &[namespace("files", "baseline"), volume, claim]).unwrap();
    wait_until_bound(cluster, "files", "state").await;
    apply(cluster, &[user]).unwrap();
    wait_for(cluster, "files", "user", "Succeeded").await;
    cluster
        .run_kubectl(&["delete", "namespace", "files"])
        .unwrap();
    cluster
        .run_kubectl(&["delete", "persistentvolume", "by-hand"])
        .unwrap();
}

pub(crate) async fn pods_run_loaded_images(cluster: &Cluster) {
    // From an archive, and from the folder that is in it
    let archive = cluster.folder().join("pause.tar");
    let layout = tempfile::tempdir().unwrap();
    tar::Archive::new(fs::File::open(&archive).unwrap())
        .unpack(layout.path())
        .unwrap();
    apply(cluster, &[namespace("images", "restricted")]).unwrap();
    for (name, path) in [("archive", archive.as_path()), ("folder", layout.path())] {
        let image = format!("docker.io/local/{name}:2");
        cluster.load_image(path, &image).unwrap();
        apply(
            cluster,
            &[pod("images", name, &image, &["lookup", "localhost"])],
        )
        .unwrap();
        wait_for(cluster, "images", name, "Succeeded").await;
    }
    cluster
        .run_kubectl(&["delete", "namespace", "images", "--wait=false"])
        .unwrap();
}

pub(crate) fn pod_security_is_enforced(cluster: &Cluster) {
    apply(cluster, &[namespace("strict", "restricted")]).unwrap();
    let mut careless = pod("strict", "careless", PAUSE_IMAGE, &[]);
    let spec = careless.get_mut("spec").and_then(Value::as_object_mut);
    spec.unwrap().remove("securityContext");
    let complaint = apply(cluster, &[careless]).unwrap_err();
    assert!(complaint.contains("violates PodSecurity"), "{complaint}");
    cluster
        .run_kubectl(&["delete", "namespace", "strict", "--wait=false"])
        .unwrap();
}
