//! The optional policy that denies Stacks and Workspaces whose requester could not run their pod.

use std::path::PathBuf;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::{Api, Client, api::PostParams};
use pko_api::{Stack, Workspace, requester_policy};
use pko_testkit::{ControlPlane, TestNamespace, eventually, fixtures, with_namespace};
use serde_json::{Value, json};

use crate::plane::kubectl;

/// May only edit Stacks and Workspaces.
const STACK_EDITOR: &str = "stack-editor";
/// May also create pods.
const POD_CREATOR: &str = "pod-creator";
/// May also use one service account.
const DEPLOYER: &str = "deployer";

fn committed() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/policies/requesters.yaml")
}

async fn plane_with_policy() -> ControlPlane {
    let plane = ControlPlane::builder().start().await.unwrap();
    plane.install_crds(&pko_api::crd::all()).await.unwrap();
    let (applied, output) = kubectl(&plane, &["apply", "-f", committed().to_str().unwrap()]);
    assert!(applied, "{output}");
    let stacks = json!({ "apiGroups": ["pulumi.com"], "resources": ["stacks"], "verbs": ["*"] });
    let workspaces =
        json!({ "apiGroups": ["auto.pulumi.com"], "resources": ["workspaces"], "verbs": ["*"] });
    let pods = json!({ "apiGroups": [""], "resources": ["pods"], "verbs": ["create"] });
    let account = json!({
        "apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["deployer"], "verbs": ["use"],
    });
    let rules = [stacks, workspaces, pods, account];
    grant(&plane, STACK_EDITOR, &rules[..2]).await;
    grant(&plane, POD_CREATOR, &rules[..3]).await;
    grant(&plane, DEPLOYER, &rules).await;
    plane
}

async fn grant(plane: &ControlPlane, user: &str, rules: &[Value]) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let client = plane.client().unwrap();
    let role: ClusterRole =
        serde_json::from_value(json!({ "metadata": { "name": user }, "rules": rules })).unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": user },
        "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": user },
        "subjects": [{ "apiGroup": GROUP, "kind": "User", "name": user }],
    }))
    .unwrap();
    let parameters = PostParams::default();
    let cluster_roles: Api<ClusterRole> = Api::all(client.clone());
    cluster_roles.create(&parameters, &role).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(client);
    bindings.create(&parameters, &binding).await.unwrap();
}

fn stack(spec: &Value) -> Stack {
    let mut fields = json!({ "stack": "dev", "programRef": { "name": "hello" } });
    let own = spec.as_object().unwrap().clone();
    fields.as_object_mut().unwrap().extend(own);
    serde_json::from_value(json!({ "metadata": { "name": "demo" }, "spec": fields })).unwrap()
}

fn with_account(name: &str) -> Stack {
    stack(&json!({ "workspaceTemplate": { "spec": { "serviceAccountName": name } } }))
}

/// Tries to create an object, in a dry run. Returns the message of the rejection.
async fn create(client: &Client, namespace: &TestNamespace, stack: &Stack) -> Result<(), String> {
    let parameters = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let stacks: Api<Stack> = Api::namespaced(client.clone(), namespace.name());
    let created = stacks.create(&parameters, stack).await;
    created.map(|_| ()).map_err(|error| error.to_string())
}

#[tokio::test]
async fn requester_needs_the_rights_of_the_pod() {
    let plane = plane_with_policy().await;
    let client = |user| plane.client_as(user, &[]).unwrap();
    Box::pin(with_namespace(&plane, async |namespace| {
        let editor = client(STACK_EDITOR);
        let plain = stack(&json!({}));
        eventually("the policy to deny", async || {
            match create(&editor, namespace, &plain).await {
                Err(error) if error.contains("you may not create pods in namespace") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
        .unwrap();

        let creator = client(POD_CREATOR);
        assert_eq!(create(&creator, namespace, &plain).await, Ok(()));
        let default = with_account("default");
        assert_eq!(create(&creator, namespace, &default).await, Ok(()));
        let deployer_template = json!({
            "workspaceTemplate": { "spec": { "podTemplate": { "spec": { "serviceAccountName": "deployer" } } } },
        });
        for stack in [
            with_account("deployer"),
            stack(&json!({ "serviceAccountName": "deployer" })),
            stack(&deployer_template),
        ] {
            let error = create(&creator, namespace, &stack).await.unwrap_err();
            let expected = "you may not run pods as service account deployer";
            assert!(error.contains(expected), "{error}");
        }

        let deployer = client(DEPLOYER);
        let own = create(&deployer, namespace, &with_account("deployer")).await;
        assert_eq!(own, Ok(()));
        let error = create(&deployer, namespace, &with_account("admin")).await;
        assert!(error.unwrap_err().contains("service account admin"));
    }))
    .await;
}

/// A user who may only edit Workspaces is denied too; a change of labels needs no further right.
#[tokio::test]
async fn requester_is_checked_only_for_changes_of_the_spec() {
    let plane = plane_with_policy().await;
    with_namespace(&plane, async |namespace| {
        let workspace = json!({
            "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Workspace",
            "metadata": { "name": "demo" }, "spec": { "serviceAccountName": "deployer" },
        });
        let workspace: Workspace = serde_json::from_value(workspace).unwrap();
        let editor = plane.client_as(STACK_EDITOR, &[]).unwrap();
        let workspaces: Api<Workspace> = Api::namespaced(editor, namespace.name());
        eventually("the policy to deny", async || {
            let parameters = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            match workspaces.create(&parameters, &workspace).await {
                Err(error) if error.to_string().contains("create pods") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
        .unwrap();

        let all: Api<Workspace> = namespace.api();
        all.create(&PostParams::default(), &workspace)
            .await
            .unwrap();
        let label = json!({ "metadata": { "labels": { "team": "a" } } });
        let patch = |patch| kube::api::Patch::Merge(patch);
        let parameters = kube::api::PatchParams::default();
        workspaces
            .patch("demo", &parameters, &patch(label))
            .await
            .unwrap();
        let spec = json!({ "spec": { "image": "other" } });
        let error = workspaces.patch("demo", &parameters, &patch(spec)).await;
        assert!(error.unwrap_err().to_string().contains("create pods"));
    })
    .await;
}

#[test]
fn committed_requester_policy_matches_code() {
    let committed: Vec<Value> = fixtures::load(&committed()).unwrap();
    assert!(
        committed == [requester_policy::policy(), requester_policy::binding()],
        "run `cargo xtask generate`"
    );
}
