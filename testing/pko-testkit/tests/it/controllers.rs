//! The built-in controllers of a control plane work.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use pko_testkit::{ControlPlane, TestNamespace, eventually, with_namespace};
use serde_json::json;

#[tokio::test]
async fn controllers_create_pods_and_collect_garbage() {
    let plane = ControlPlane::builder()
        .controller_manager(true)
        .start()
        .await
        .unwrap();
    let name = with_namespace(&plane, async |namespace| {
        // Made by a controller, and there from the start
        let accounts: Api<ServiceAccount> = namespace.api();
        accounts.get("default").await.unwrap();
        await_pods_of_a_stateful_set(namespace).await;
        await_garbage_collection(namespace).await;
        Ok::<_, ()>(namespace.name().to_owned())
    })
    .await
    .unwrap();

    let api: Api<Namespace> = Api::all(plane.client().unwrap());
    eventually("the namespace to end", async || {
        match api.get_opt(&name).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
}

async fn await_pods_of_a_stateful_set(namespace: &TestNamespace) {
    let labels = json!({ "app": "x" });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "set" },
        "spec": {
            "serviceName": "x", "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "c", "image": "none" }] },
            },
        },
    });
    namespace.create_object(set).await.unwrap();
    let pods: Api<Pod> = namespace.api();
    eventually("the pod of a stateful set", async || {
        pods.get("set-0").await
    })
    .await
    .unwrap();
}

async fn await_garbage_collection(namespace: &TestNamespace) {
    let sets: Api<StatefulSet> = namespace.api();
    let owner = serde_json::to_value(sets.get("set").await.unwrap()).unwrap();
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": {
        "name": "owned",
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set",
            "uid": owner["metadata"]["uid"],
        }],
    }}))
    .unwrap();
    let maps: Api<ConfigMap> = namespace.api();
    maps.create(&PostParams::default(), &map).await.unwrap();
    sets.delete("set", &DeleteParams::background())
        .await
        .unwrap();
    let pods: Api<Pod> = namespace.api();
    eventually("what belongs to the stateful set to go", async || {
        let map = maps
            .get_opt("owned")
            .await
            .map_err(|error| error.to_string())?;
        let pods = pods
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let gone = map.is_none() && pods.items.is_empty();
        gone.then_some(())
            .ok_or_else(|| format!("{map:?}, {} pods", pods.items.len()))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn restarted_controllers_catch_up() {
    let plane = ControlPlane::builder()
        .controller_manager(true)
        .start()
        .await
        .unwrap();
    plane.stop_controllers().unwrap();
    let client = plane.client().unwrap();
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("meanwhile".to_owned());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let created = namespaces.create(&PostParams::default(), &namespace).await;
    created.unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client, "meanwhile");
    assert!(accounts.get_opt("default").await.unwrap().is_none());

    plane.start_controllers().unwrap();
    eventually("the service account", async || {
        accounts.get("default").await.map(drop)
    })
    .await
    .unwrap();
}
