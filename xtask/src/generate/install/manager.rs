//! The operator's namespace, service account, Deployment and Services. Does no I/O.

use pko_api::names::images;
use serde_json::{Value, json};

use super::{ACCOUNT, NAME_LABEL, NAMESPACE, SELECTOR_LABEL, namespaced, pairs};
use crate::image::TAG;

/// The Service from which workspaces fetch Programs.
const SERVICE: &str = "pulumi-kubernetes-operator";
/// The metrics Service of upstream's documentation.
const DOCUMENTED_METRICS: &str = "pulumi-kubernetes-operator-metrics";
/// The metrics Service of upstream's manifest.
const METRICS: &str = "controller-manager-metrics-service";

const USER: u32 = 65532;

pub(super) struct Port {
    pub(super) name: &'static str,
    pub(super) number: u16,
}

pub(super) const PROGRAMS: Port = Port {
    name: "http-fileserver",
    number: 9090,
};
/// HTTPS, despite upstream's name.
pub(super) const METRICS_PORT: Port = Port {
    name: "http-metrics",
    number: 8443,
};
const PROBES: Port = Port {
    name: "http-probes",
    number: 8081,
};

/// Enforces the `restricted` Pod Security Standard.
pub(super) fn namespace() -> Value {
    let labels = [
        NAME_LABEL,
        SELECTOR_LABEL,
        ("pod-security.kubernetes.io/enforce", "restricted"),
        ("pod-security.kubernetes.io/warn", "restricted"),
    ];
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": pairs(&labels)},
    })
}

pub(super) fn account() -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": namespaced(ACCOUNT, &[NAME_LABEL])})
}

/// Programs and metrics, under all of upstream's names.
pub(super) fn services() -> Vec<Value> {
    vec![
        service(
            SERVICE,
            &[
                ("http-fileserver", 80, &PROGRAMS),
                ("http-metrics", 8383, &METRICS_PORT),
            ],
        ),
        service(METRICS, &[("https", 8443, &METRICS_PORT)]),
        service(DOCUMENTED_METRICS, &[("http-metrics", 8383, &METRICS_PORT)]),
    ]
}

fn service(name: &str, ports: &[(&str, u16, &Port)]) -> Value {
    let ports = ports.iter().map(|(name, number, target)| {
        json!({"name": name, "port": number, "targetPort": target.name, "protocol": "TCP"})
    });
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": namespaced(name, &[NAME_LABEL, SELECTOR_LABEL]),
        "spec": {
            "type": "ClusterIP",
            "selector": pairs(&[SELECTOR_LABEL]),
            "ports": ports.collect::<Vec<_>>(),
        },
    })
}

pub(super) fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": namespaced(ACCOUNT, &[NAME_LABEL, SELECTOR_LABEL]),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": pairs(&[SELECTOR_LABEL])},
            "template": {
                "metadata": {
                    "annotations": {"kubectl.kubernetes.io/default-container": "manager"},
                    // Both, since network policies know the operator by the first.
                    "labels": pairs(&[NAME_LABEL, SELECTOR_LABEL]),
                },
                "spec": {
                    "serviceAccountName": ACCOUNT,
                    "terminationGracePeriodSeconds": 600,
                    "securityContext": {
                        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [container()],
                },
            },
        },
    })
}

fn container() -> Value {
    let size = json!({"cpu": "200m", "memory": "128Mi"});
    let ports = [PROGRAMS, METRICS_PORT, PROBES];
    let ports = ports
        .map(|port| json!({"name": port.name, "containerPort": port.number, "protocol": "TCP"}));
    json!({
        "name": "manager",
        "image": image(),
        "imagePullPolicy": "IfNotPresent",
        "args": arguments(),
        "env": environment(),
        "ports": ports,
        "livenessProbe": probe("/healthz", 15, 20),
        "readinessProbe": probe("/readyz", 1, 10),
        "resources": {"requests": size, "limits": size},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    })
}

fn image() -> String {
    format!("{}:{TAG}", images::OPERATOR)
}

fn arguments() -> Vec<String> {
    vec![
        "/manager".to_owned(),
        "--leader-elect".to_owned(),
        format!("--metrics-bind-address=:{}", METRICS_PORT.number),
        format!("--health-probe-bind-address=:{}", PROBES.number),
        format!("--program-fs-adv-addr={SERVICE}.$(POD_NAMESPACE):80"),
        "--zap-log-level=info".to_owned(),
        "--zap-encoder=console".to_owned(),
        "--zap-time-encoding=iso8601".to_owned(),
    ]
}

fn environment() -> Vec<Value> {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let value = |name: &str, value: &str| json!({"name": name, "value": value});
    vec![
        field("POD_NAMESPACE", "metadata.namespace"),
        field("POD_SA_NAME", "spec.serviceAccountName"),
        value("AGENT_IMAGE", &image()),
        value("AGENT_IMAGE_PULL_POLICY", "IfNotPresent"),
        value("LEADER_ELECTION_LEASE_DURATION", "20s"),
        value("LEADER_ELECTION_RENEW_DEADLINE", "15s"),
        value("LEADER_ELECTION_RETRY_PERIOD", "5s"),
        value("KUBE_API_TIMEOUT", "30s"),
    ]
}

fn probe(path: &str, delay: u32, period: u32) -> Value {
    json!({
        "httpGet": {"path": path, "port": PROBES.name},
        "initialDelaySeconds": delay,
        "periodSeconds": period,
    })
}
