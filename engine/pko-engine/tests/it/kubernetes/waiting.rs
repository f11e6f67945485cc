//! What is waited for: controllers do their part, and the test does that of nodes.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use pko_testkit::{TestNamespace, eventually, with_namespace};
use pulumi_engine_model::urn::Urn;
use pulumi_engine_providers::{Call, Provider, ProviderError, ReadRequest};
use serde_json::{Value, json};

use super::{Driver, beside, meddle, plane};

const DEPLOYMENT: &str = "kubernetes:apps/v1:Deployment";
const JOB: &str = "kubernetes:batch/v1:Job";

fn deployment(image: &str) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]}},
    }})
}

fn job() -> Value {
    let container = json!({"name": "work", "image": "example.com/work"});
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [container]}});
    json!({"metadata": {"name": "work"}, "spec": {"backoffLimit": 0, "template": template}})
}

/// Writes the status of all pods of some image as a node would, once there are so many.
async fn pods_become(namespace: &TestNamespace, image: &str, count: usize, status: Value) {
    let pods: Api<Pod> = namespace.api();
    let names = eventually("pods", async || {
        let found = pods
            .list(&ListParams::default())
            .await
            .map_err(|error| error.to_string())?;
        let of_image = |pod: &Pod| {
            let spec = pod.spec.as_ref();
            spec.is_some_and(|spec| {
                spec.containers
                    .iter()
                    .any(|it| it.image.as_deref() == Some(image))
            })
        };
        let names: Vec<_> = found
            .items
            .into_iter()
            .filter(of_image)
            .filter_map(|pod| pod.metadata.name)
            .collect();
        if names.len() == count {
            Ok(names)
        } else {
            Err(format!("{names:?}"))
        }
    });
    for name in names.await.unwrap() {
        let patch = Patch::Merge(json!({ "status": status }));
        pods.patch_status(&name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

fn running() -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn deployment_is_awaited_on_create_and_update() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let node = pods_become(namespace, "example.com/web:1", 2, running());
        let made = beside(
            || driver.create(DEPLOYMENT, "web", &deployment("example.com/web:1")),
            node,
        );
        let made = made.unwrap();
        assert_eq!(made.live()["status"]["availableReplicas"], 2);
        // pods of before may stay until new ones are ready: one more at a time is allowed
        let node = async {
            for count in [1, 2] {
                pods_become(namespace, "example.com/web:2", count, running()).await;
            }
        };
        let changed = beside(
            || driver.update(&made, &deployment("example.com/web:2")),
            node,
        );
        let changed = changed.unwrap();
        assert_eq!(changed.live()["status"]["updatedReplicas"], 2);
        let gone = namespace.api::<Pod>();
        driver.delete(&changed).unwrap();
        // what it owned went first
        assert_eq!(
            gone.list(&ListParams::default()).await.unwrap().items.len(),
            0
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_timeout_names_cause_and_next_run_continues() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let mut driver = Driver::new(&plane, namespace.name());
        driver.timeout = Some(Duration::from_secs(4));
        let image = "example.com/missing";
        let node = pods_become(namespace, image, 2, json!({"phase": "Pending", "containerStatuses": [{
            "name": "web", "ready": false, "restartCount": 0, "image": image, "imageID": "",
            "state": {"waiting": {"reason": "ImagePullBackOff", "message": "there is no such image"}},
        }]}));
        let made = beside(|| driver.create(DEPLOYMENT, "web", &deployment(image)), node);
        let Err(ProviderError::Incomplete { id, outputs, reasons }) = made else {
            panic!("{made:?}");
        };
        assert_eq!(id, format!("{}/web", namespace.name()));
        let told = reasons.join("\n");
        for part in ["timed out", "0 of 2 pods are available", "pod ", "ImagePullBackOff", "no such image"] {
            assert!(told.contains(part), "{told}");
        }
        // the state has it, and a refresh finds no change
        let urn = Urn::new(format!("urn:pulumi:dev::demo::{DEPLOYMENT}::web"));
        let inputs = driver.check(&urn, None, &deployment(image));
        let request = ReadRequest { id: &id, inputs: Some(&inputs), outputs: &outputs };
        let read = driver.run(&urn, false, |provider, call| provider.read(call, &request));
        let Err(ProviderError::Incomplete { reasons, .. }) = read else {
            panic!("{read:?}");
        };
        assert!(reasons.join("\n").contains("no such image"), "{reasons:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_ends_on_interrupt() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let urn = Urn::new(format!("urn:pulumi:dev::demo::{JOB}::work"));
        let inputs = driver.check(&urn, None, &job());
        let stop = AtomicBool::new(false);
        let call = Call {
            urn: &urn,
            preview: false,
            timeout: None,
            canceled: &|| stop.load(Ordering::Relaxed),
            // as soon as anything is waited for
            status: &|_| stop.store(true, Ordering::Relaxed),
        };
        let ended = driver.run(&urn, false, |provider, _| provider.create(&call, &inputs));
        let Err(ProviderError::Incomplete { reasons, .. }) = ended else {
            panic!("{ended:?}");
        };
        assert!(reasons.join("\n").contains("canceled"), "{reasons:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn job_is_awaited_until_complete_or_failed() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let ended = |reason: &str, code: i32| {
            let phase = if code == 0 { "Succeeded" } else { "Failed" };
            json!({"phase": phase, "containerStatuses": [{
                "name": "work", "ready": false, "restartCount": 0, "image": "example.com/work", "imageID": "",
                "state": {"terminated": {"reason": reason, "exitCode": code}},
            }]})
        };
        let node = pods_become(namespace, "example.com/work", 1, ended("Completed", 0));
        let made = beside(|| driver.create(JOB, "work", &job()), node);
        let made = made.unwrap();
        assert_eq!(made.live()["status"]["succeeded"], 1);
        driver.delete(&made).unwrap();

        let node = pods_become(namespace, "example.com/work", 1, ended("Error", 3));
        let failed = beside(|| driver.create(JOB, "work", &job()), node);
        let Err(ProviderError::Incomplete { reasons, .. }) = failed else {
            panic!("{failed:?}");
        };
        let told = reasons.join("\n");
        assert!(told.contains("BackoffLimitExceeded") && told.contains("exit code 3"), "{told}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_without_readiness_are_not_awaited() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let mut unseen = job();
        unseen["metadata"]["annotations"] = json!({"pulumi.com/skipAwait": "true"});
        driver.create(JOB, "work", &unseen).unwrap();
        let headless = json!({"metadata": {"name": "headless"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}});
        driver.create("kubernetes:core/v1:Service", "headless", &headless).unwrap();
        let by_hand = json!({"metadata": {"name": "by-hand"}, "spec": {"ports": [{"port": 80}]}});
        driver.create("kubernetes:core/v1:Service", "by-hand", &by_hand).unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_for_annotation_is_followed() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let wanted = json!({"metadata": {"name": "later", "annotations": {"pulumi.com/waitFor": "jsonpath={.data.ready}=yes"}}});
        let other = async {
            let kind = super::config_map_kind();
            eventually("the ConfigMap", async || super::stored(namespace, &kind, "later").await.ok_or("not there"))
                .await
                .unwrap();
            meddle(namespace, &kind, "later", "controller", json!({"data": {"ready": "yes"}})).await;
        };
        let made = beside(|| driver.create(super::CONFIG_MAP, "later", &wanted), other);
        assert_eq!(made.unwrap().live()["data"]["ready"], "yes");
    })
    .await;
}
