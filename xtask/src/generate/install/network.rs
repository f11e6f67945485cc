//! Network policies. Does no I/O.

use pko_api::names::labels;
use serde_json::{Value, json};

use super::{
    NAME_LABEL, NAMESPACE, SELECTOR_LABEL,
    manager::{METRICS_PORT, PROGRAMS},
    namespaced, pairs,
};

pub(super) fn policies() -> Vec<Value> {
    vec![workspaces(), operator()]
}

/// Only the operator may call workspaces in `default`.
fn workspaces() -> Value {
    policy(
        &json!({"name": "allow-workspace-rpc", "namespace": "default", "labels": pairs(&[NAME_LABEL])}),
        &workspace_label(),
        &json!([{
            "from": [{
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                "podSelector": {"matchLabels": pairs(&[NAME_LABEL])},
            }],
            "ports": [{"port": "grpc", "protocol": "TCP"}],
        }]),
    )
}

/// The operator serves Programs to workspaces, and metrics to authorized clients. Kubelets are
/// always allowed.
fn operator() -> Value {
    policy(
        &namespaced("controller-manager", &[NAME_LABEL]),
        &json!(pairs(&[SELECTOR_LABEL])),
        &json!([
            {
                "from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": workspace_label()}}],
                "ports": [port(PROGRAMS.number)],
            },
            {"ports": [port(METRICS_PORT.number)]},
        ]),
    )
}

fn policy(metadata: &Value, pods: &Value, ingress: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": pods},
            "policyTypes": ["Ingress"],
            "ingress": ingress,
        },
    })
}

fn workspace_label() -> Value {
    json!({labels::AUTO_COMPONENT_KEY: labels::WORKSPACE_COMPONENT})
}

fn port(number: u16) -> Value {
    json!({"port": number, "protocol": "TCP"})
}
