//! Who may call whom, for clusters whose network asks. Pure.

use pko_api::names::labels;
use serde_json::{Value, json};

use super::{
    NAMESPACE, PART_OF, SELECTED_BY,
    manager::{METRICS_PORT, PROGRAMS},
    own, pairs,
};

pub(super) fn policies() -> Vec<Value> {
    vec![workspaces(), operator()]
}

/// Workspaces in `default` are called by the operator and by nobody else.
fn workspaces() -> Value {
    policy(
        &json!({"name": "allow-workspace-rpc", "namespace": "default", "labels": pairs(&[PART_OF])}),
        &workspace_label(),
        &json!([{
            "from": [{
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
                "podSelector": {"matchLabels": pairs(&[PART_OF])},
            }],
            "ports": [{"port": "grpc", "protocol": "TCP"}],
        }]),
    )
}

/// The operator serves Programs to workspaces, and metrics to whoever may read them. A kubelet is always let through.
fn operator() -> Value {
    policy(
        &own("controller-manager", &[PART_OF]),
        &json!(pairs(&[SELECTED_BY])),
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
