//! The manager has the rights in `deploy/rbac` and no others: all managers of these tests run under
//! these roles.

use k8s_openapi::api::{
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role as NamespacedRole, RoleBinding},
};
use kube::{Api, Client, Resource, api::PostParams};
use pko_api::rbac::{
    CONTROLLER_MANAGER, GROUP, LEADER_ELECTION, METRICS_AUTH, PROCESS_WORKSPACES, Role, Scope,
    TOKEN_REQUEST,
};
use pko_testkit::{ControlPlane, ProgramBuilder, StackBuilder, eventually};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::{OWN_NAMESPACE, System, Watched},
};

/// What is bound to the manager.
const ROLES: [Role; 5] = [
    CONTROLLER_MANAGER,
    LEADER_ELECTION,
    TOKEN_REQUEST,
    METRICS_AUTH,
    PROCESS_WORKSPACES,
];

/// The group of all managers: those of different tests are different users.
pub(crate) const MANAGERS: &str = "managers";

/// Makes the roles, and gives them to all managers and to the service account that they have.
pub(crate) async fn grant(plane: &ControlPlane) {
    let client = plane.client().unwrap();
    let account = json!({ "metadata": { "name": "controller-manager" } });
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), OWN_NAMESPACE);
    create(accounts, account).await;
    let subjects = [
        json!({ "kind": "Group", "name": MANAGERS, "apiGroup": GROUP }),
        json!({ "kind": "ServiceAccount", "name": "controller-manager", "namespace": OWN_NAMESPACE }),
    ];
    for role in ROLES {
        give(&client, role, &subjects).await;
    }
}

/// Makes a role, in the manager's own namespace if it is not for the cluster, and binds it.
pub(crate) async fn give(client: &Client, role: Role, subjects: &[Value]) {
    give_in(client, OWN_NAMESPACE, role, subjects).await;
}

/// [`give`] for a manager with another namespace of its own.
pub(crate) async fn give_in(client: &Client, namespace: &str, role: Role, subjects: &[Value]) {
    let client = client.clone();
    match role.scope {
        Scope::Cluster => {
            create(Api::<ClusterRole>::all(client.clone()), role.object()).await;
            let binding = role.binding(None, subjects);
            create(Api::<ClusterRoleBinding>::all(client), binding).await;
        }
        Scope::OwnNamespace => {
            let roles = Api::<NamespacedRole>::namespaced(client.clone(), namespace);
            create(roles, role.object()).await;
            let binding = role.binding(Some(namespace), subjects);
            create(Api::<RoleBinding>::namespaced(client, namespace), binding).await;
        }
    }
}

async fn create<K>(objects: Api<K>, object: Value)
where
    K: Resource + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    objects
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
}

#[tokio::test]
async fn rbac_roles_allow_a_stack_lifecycle() {
    let system = System::start_watching(Watched::Cluster, &[]).await;
    let namespace = system.namespace().await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "credentials" },
        "stringData": { "passphrase": "correct-horse" },
    });
    namespace.create_object(secret).await.unwrap();
    let program = ProgramBuilder::new("demo").output("a", "b").build();
    namespace.create_object(program).await.unwrap();
    let stack = StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .destroy_on_finalize(true)
        .build();
    let trail = Trail::of(&namespace, "demo");
    namespace.create_object(stack).await.unwrap();
    trail.until("Ready").await;
    let stacks = namespace.api::<pko_api::Stack>();
    stacks
        .delete("demo", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    eventually("the Stack to be gone", async || {
        let found = stacks.get_opt("demo").await.unwrap();
        found.map_or(Ok(()), |stack| Err(format!("{:?}", stack.status)))
    })
    .await
    .unwrap();

    let requests = system.requests().await;
    let refused = requests.clone().only(|request| request.code == 403);
    assert!(refused.is_empty(), "{}", refused.counts());
    let secrets = requests.clone().only(|request| {
        request.resource == "secrets" && !["get", "create"].contains(&&*request.verb)
    });
    assert!(secrets.is_empty(), "{}", secrets.counts());
    assert!(requests.count(system.user(), "patch", "stacks.pulumi.com/status") > 0);
}
