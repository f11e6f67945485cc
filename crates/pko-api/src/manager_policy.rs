//! A `ValidatingAdmissionPolicy` that denies the manager's service account what the manager never
//! does. Does no I/O.
//!
//! RBAC cannot restrict writes by label, type or namespace pattern. With this policy, a manager
//! that was taken over cannot write service account tokens, change other workloads, or enter
//! Kubernetes' own namespaces. It is not part of the installation. `deploy/policies/manager.yaml`
//! is generated from this file.

use serde_json::{Value, json};

use crate::{names::labels, policy_objects};

/// The name of the policy and of its binding.
pub const NAME: &str = "pulumi-kubernetes-operator-manager";

/// The manager's account in `install.yaml`.
pub const ACCOUNT: &str = "system:serviceaccount:pulumi-kubernetes-operator:controller-manager";
const IN_OWN_NAMESPACE: &str =
    "!(request.namespace in ['kube-system', 'kube-public', 'kube-node-lease'])";
const HAS_OPAQUE_SECRETS: &str = "request.resource.resource != 'secrets' || \
     object.?type.orValue('Opaque') == 'Opaque'";

/// The policy. If it fails, the API server rejects the write.
#[must_use]
pub fn policy() -> Value {
    let rule = |group: &str, resources: &[&str], operations: &[&str]| {
        json!({
            "apiGroups": [group],
            "apiVersions": ["v1"],
            "resources": resources,
            "operations": operations,
            "scope": "*",
        })
    };
    let (key, value) = (labels::AUTO_COMPONENT_KEY, labels::WORKSPACE_COMPONENT);
    // Checked before and after the write, so that adding a label does not make an object a
    // workspace's.
    let is_workspace = format!(
        "request.resource.resource == 'secrets' || [object, oldObject].all(o, o == null || \
         o.?metadata.?labels[?'{key}'].orValue('') == '{value}')"
    );
    json!({
        "apiVersion": policy_objects::API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": policy_objects::metadata(NAME),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": { "resourceRules": [
                rule("", &["secrets"], &["CREATE", "UPDATE"]),
                rule("", &["services", "pods"], &["CREATE", "UPDATE", "DELETE"]),
                rule("apps", &["statefulsets"], &["CREATE", "UPDATE", "DELETE"]),
            ] },
            "matchConditions": [{
                "name": "is-manager",
                "expression": format!("request.userInfo.username == '{ACCOUNT}'"),
            }],
            "validations": [
                {
                    "expression": IN_OWN_NAMESPACE,
                    "message": "the manager writes nothing in Kubernetes' own namespaces",
                    "reason": "Forbidden",
                },
                {
                    "expression": HAS_OPAQUE_SECRETS,
                    "message": "the manager writes Secrets of type Opaque only",
                    "reason": "Forbidden",
                },
                {
                    "expression": is_workspace,
                    "message": format!("the manager writes only objects with the label {key}={value}"),
                    "reason": "Forbidden",
                },
            ],
        },
    })
}

/// Binds the policy to the whole cluster.
#[must_use]
pub fn binding() -> Value {
    policy_objects::binding(NAME, &["Deny"])
}
