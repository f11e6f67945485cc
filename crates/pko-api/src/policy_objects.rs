//! What the objects of all admission policies have in common. Does no I/O.

use serde_json::{Value, json};

pub(crate) const API: &str = "admissionregistration.k8s.io/v1";

/// Binds a policy to the whole cluster.
pub(crate) fn binding(name: &str, actions: &[&str]) -> Value {
    json!({
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata(name),
        "spec": { "policyName": name, "validationActions": actions },
    })
}

pub(crate) fn metadata(name: &str) -> Value {
    json!({ "name": name, "labels": { "app.kubernetes.io/name": "pulumi-kubernetes-operator" } })
}
