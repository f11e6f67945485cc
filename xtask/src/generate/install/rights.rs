//! Roles from `pko_api::rbac`, with upstream's names for the bindings. Does no I/O.

use pko_api::rbac::{
    CONTROLLER_MANAGER, EDIT, GROUP, LEADER_ELECTION, METRICS_AUTH, METRICS_READER, Role,
    TOKEN_REQUEST, VIEW,
};
use serde_json::{Value, json};

use super::{ACCOUNT, NAME_LABEL, NAMESPACE, own_namespace, pairs};

/// The roles of a default installation. Others are for optional features.
pub(super) const ROLES: [Role; 7] = [
    CONTROLLER_MANAGER,
    LEADER_ELECTION,
    TOKEN_REQUEST,
    METRICS_AUTH,
    METRICS_READER,
    EDIT,
    VIEW,
];

/// The manager's roles and the names of their bindings. `roleRef` is immutable, so the names fit
/// upstream's.
const BOUND: [(Role, &str); 4] = [
    (CONTROLLER_MANAGER, "pulumi-kubernetes-operator"),
    (LEADER_ELECTION, "leader-election-rolebinding"),
    (TOKEN_REQUEST, "token-request-rolebinding"),
    (METRICS_AUTH, "metrics-auth-rolebinding"),
];

/// The service account of workspaces in upstream's examples.
const WORKSPACES: (&str, &str) = ("default", "pulumi");

pub(super) fn workspace_account() -> Value {
    let (namespace, name) = WORKSPACES;
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": pairs(&[NAME_LABEL])},
    })
}

pub(super) fn bindings() -> Vec<Value> {
    let own = BOUND.iter().map(|(role, name)| binding(role, name));
    own.chain([delegation()]).collect()
}

fn binding(role: &Role, name: &str) -> Value {
    let namespace = own_namespace(role);
    let subject = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE});
    let mut binding = role.binding(namespace, &[subject]);
    let mut metadata = json!({"name": name, "labels": pairs(&[NAME_LABEL])});
    if let (Some(namespace), Value::Object(fields)) = (namespace, &mut metadata) {
        fields.insert("namespace".to_owned(), json!(namespace));
    }
    if let Value::Object(fields) = &mut binding {
        fields.insert("metadata".to_owned(), metadata);
    }
    binding
}

/// Upstream's agent reviews tokens and needs this. Ours does not.
fn delegation() -> Value {
    let (namespace, account) = WORKSPACES;
    let role = "system:auth-delegator";
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{namespace}:{account}:{role}"), "labels": pairs(&[NAME_LABEL])},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    })
}
