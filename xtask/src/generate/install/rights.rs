//! Who may do what: the roles of `pko_api::rbac` under upstream's names of their bindings. Pure.

use pko_api::rbac::{
    CONTROLLER_MANAGER, EDIT, GROUP, LEADER_ELECTION, METRICS_AUTH, METRICS_READER, Role,
    TOKEN_REQUEST, VIEW,
};
use serde_json::{Value, json};

use super::{ACCOUNT, NAMESPACE, PART_OF, own_namespace, pairs};

/// Those that are installed. The others of the table are for managers that are told to do more.
pub(super) const ROLES: [Role; 7] = [
    CONTROLLER_MANAGER,
    LEADER_ELECTION,
    TOKEN_REQUEST,
    METRICS_AUTH,
    METRICS_READER,
    EDIT,
    VIEW,
];

/// Those that the manager has, each with the name of its binding. What a binding is for can't be changed, so that these
/// fit over upstream's.
const BOUND: [(Role, &str); 4] = [
    (CONTROLLER_MANAGER, "pulumi-kubernetes-operator"),
    (LEADER_ELECTION, "leader-election-rolebinding"),
    (TOKEN_REQUEST, "token-request-rolebinding"),
    (METRICS_AUTH, "metrics-auth-rolebinding"),
];

/// The account of workspaces in upstream's examples.
const WORKSPACES: (&str, &str) = ("default", "pulumi");

pub(super) fn workspace_account() -> Value {
    let (namespace, name) = WORKSPACES;
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": pairs(&[PART_OF])},
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
    let mut metadata = json!({"name": name, "labels": pairs(&[PART_OF])});
    if let (Some(namespace), Value::Object(fields)) = (namespace, &mut metadata) {
        fields.insert("namespace".to_owned(), json!(namespace));
    }
    if let Value::Object(fields) = &mut binding {
        fields.insert("metadata".to_owned(), metadata);
    }
    binding
}

/// An agent that asks the API server who calls, as upstream's does, needs this. Ours does not.
fn delegation() -> Value {
    let (namespace, account) = WORKSPACES;
    let role = "system:auth-delegator";
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{namespace}:{account}:{role}"), "labels": pairs(&[PART_OF])},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    })
}
