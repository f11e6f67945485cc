//! The optional policy that limits what a stolen token of the manager can write.

use std::path::PathBuf;

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use pko_api::{manager_policy, rbac};
use pko_testkit::{ControlPlane, eventually, fixtures, with_namespace};
use serde_json::{Value, json};

use crate::plane::kubectl;

fn committed() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/policies/manager.yaml")
}

/// The manager's own account, with the manager's own rights.
async fn manager(plane: &ControlPlane) -> Client {
    let subject =
        json!({ "apiGroup": rbac::GROUP, "kind": "User", "name": manager_policy::ACCOUNT });
    let mut binding = rbac::CONTROLLER_MANAGER.binding(None, &[subject]);
    binding["metadata"] = json!({ "name": "manager" });
    for (object, kind) in [
        (rbac::CONTROLLER_MANAGER.object(), "clusterroles"),
        (binding, "clusterrolebindings"),
    ] {
        let path = format!("/apis/{}/v1/{kind}", rbac::GROUP);
        let request = http::Request::post(path).body(object.to_string().into_bytes());
        let client = plane.client().unwrap();
        client.request::<Value>(request.unwrap()).await.unwrap();
    }
    plane.client_as(manager_policy::ACCOUNT, &[]).unwrap()
}

fn secret(name: &str, kind: &str) -> Secret {
    serde_json::from_value(json!({ "metadata": { "name": name }, "type": kind })).unwrap()
}

fn stateful_set(name: &str, labels: &Value) -> StatefulSet {
    let pod = json!({
        "metadata": { "labels": { "app": name } },
        "spec": { "containers": [{ "name": "a", "image": "a" }] },
    });
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels },
        "spec": { "serviceName": name, "selector": { "matchLabels": { "app": name } }, "template": pod },
    }))
    .unwrap()
}

fn denied<T>(result: kube::Result<T>) -> String {
    match result {
        Ok(_) => "allowed".to_owned(),
        Err(error) => {
            let text = error.to_string();
            let denial = text
                .split_once("denied request: ")
                .map(|(_, denial)| denial);
            let denial = denial.unwrap_or(&text);
            let end = denial.find(": Forbidden").unwrap_or(denial.len());
            denial.get(..end).unwrap_or(denial).to_owned()
        }
    }
}

#[tokio::test]
async fn stolen_manager_account_writes_only_what_the_manager_does() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let (applied, output) = kubectl(&plane, &["apply", "-f", committed().to_str().unwrap()]);
    assert!(applied, "{output}");
    let manager = manager(&plane).await;
    let parameters = PostParams::default();
    with_namespace(&plane, async |namespace| {
        let secrets: Api<Secret> = Api::namespaced(manager.clone(), namespace.name());
        let token = "example.com/token";
        let opaque_only = "the manager writes Secrets of type Opaque only";
        eventually("the policy to deny", async || {
            match denied(secrets.create(&parameters, &secret("token", token)).await) {
                denial if denial == opaque_only => Ok(()),
                other => Err(other),
            }
        })
        .await
        .unwrap();
        let created = secrets
            .create(&parameters, &secret("outputs", "Opaque"))
            .await;
        assert_eq!(denied(created), "allowed");

        let system: Api<Secret> = Api::namespaced(manager.clone(), "kube-system");
        let created = system
            .create(&parameters, &secret("outputs", "Opaque"))
            .await;
        assert_eq!(
            denied(created),
            "the manager writes nothing in Kubernetes' own namespaces"
        );

        let workspace_label = json!({ "auto.pulumi.com/component": "workspace" });
        let only_workspaces =
            "the manager writes only objects with the label auto.pulumi.com/component=workspace";
        let sets: Api<StatefulSet> = Api::namespaced(manager.clone(), namespace.name());
        let own = sets
            .create(&parameters, &stateful_set("own", &workspace_label))
            .await;
        assert_eq!(denied(own), "allowed");
        let other = sets
            .create(&parameters, &stateful_set("other", &json!({})))
            .await;
        assert_eq!(denied(other), only_workspaces);

        // The database of another team
        let all: Api<StatefulSet> = namespace.api();
        all.create(&parameters, &stateful_set("db", &json!({})))
            .await
            .unwrap();
        let patch = json!({ "metadata": { "labels": workspace_label } });
        let patched = sets
            .patch("db", &PatchParams::default(), &Patch::Merge(patch))
            .await;
        assert_eq!(denied(patched), only_workspaces);
        assert_eq!(
            denied(sets.delete("db", &DeleteParams::default()).await),
            only_workspaces
        );
        assert_eq!(
            denied(sets.delete("own", &DeleteParams::default()).await),
            "allowed"
        );
    })
    .await;
}

#[test]
fn committed_manager_policy_matches_code() {
    let committed: Vec<Value> = fixtures::load(&committed()).unwrap();
    assert!(
        committed == [manager_policy::policy(), manager_policy::binding()],
        "run `cargo xtask generate`"
    );
}
