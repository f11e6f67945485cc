//! Counts from the audit log are exact.

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchParams};
use kube::{Api, Client};
use pko_testkit::ControlPlane;
use pko_testkit::audit::AuditPosition;
use serde_json::json;

#[tokio::test]
async fn audit_log_counts_by_user_verb_and_resource() {
    let plane = ControlPlane::builder().start().await.unwrap();
    let client = plane.client_as("operator", &["system:masters"]).unwrap();
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let object = |name: &str| -> ConfigMap {
        serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap()
    };
    api.create(&PostParams::default(), &object("before"))
        .await
        .unwrap();
    let mark = plane.audit_position().await.unwrap();

    for name in ["a", "b", "c"] {
        api.create(&PostParams::default(), &object(name))
            .await
            .unwrap();
    }
    api.create(&PostParams::default(), &object("a"))
        .await
        .unwrap_err();
    api.get("a").await.unwrap();
    api.list(&ListParams::default()).await.unwrap();
    let patch = Patch::Merge(json!({ "data": { "k": "v" } }));
    api.patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let watch = api.watch(&WatchParams::default(), "0").await.unwrap();
    let mut watch = std::pin::pin!(watch);
    watch.next().await.unwrap().unwrap();
    patch_namespace_status(client).await;
    let stranger = plane.client_as("stranger", &[]).unwrap();
    Api::<Secret>::namespaced(stranger, "default")
        .get("s")
        .await
        .unwrap_err();

    let requests = plane.requests_since(mark).await.unwrap();
    let ours = requests
        .clone()
        .only(|request| !request.user.starts_with("system:"));
    assert_eq!(
        ours.counts().to_string(),
        "     4  operator  create  configmaps\n\
         \x20    1  operator  get     configmaps\n\
         \x20    1  operator  list    configmaps\n\
         \x20    1  operator  patch   configmaps\n\
         \x20    1  operator  patch   namespaces/status\n\
         \x20    1  operator  watch   configmaps\n\
         \x20    1  stranger  get     secrets\n"
    );
    assert_eq!(ours.clone().by_user("operator").writes().len(), 6);
    let codes = |code: u16| ours.iter().filter(|request| request.code == code).count();
    assert_eq!((codes(201), codes(409), codes(403)), (3, 1, 1));

    let all = plane.requests_since(AuditPosition::START).await.unwrap();
    assert_eq!(all.count("operator", "create", "configmaps"), 5);
}

async fn patch_namespace_status(client: Client) {
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client);
    let patch = Patch::Merge(json!({ "status": { "phase": "Active" } }));
    api.patch_status("default", &PatchParams::default(), &patch)
        .await
        .unwrap();
}
