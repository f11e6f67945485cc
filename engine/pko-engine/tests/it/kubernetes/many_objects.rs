//! Many at once, and an API server that goes away and comes back.

use std::thread;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use pko_testkit::{ControlPlane, with_namespace};
use serde_json::json;

use super::{CONFIG_MAP, Driver, Resource, plane};

fn make(driver: &Driver, name: &str) -> Resource {
    driver
        .create(CONFIG_MAP, name, &json!({"data": {"name": name}}))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_objects_are_created_and_deleted() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let made: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..200)
                .map(|number| {
                    let driver = &driver;
                    scope.spawn(move || make(driver, &format!("crowd-{number}")))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let maps: Api<ConfigMap> = namespace.api();
        let count = async || {
            let found = maps.list(&ListParams::default()).await.unwrap();
            found
                .items
                .iter()
                .filter(|map| map.metadata.name.as_ref().unwrap().starts_with("crowd-"))
                .count()
        };
        assert_eq!(count().await, 200);
        thread::scope(|scope| {
            for resource in &made {
                scope.spawn(|| driver.delete(resource).unwrap());
            }
        });
        assert_eq!(count().await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn api_server_restart_is_awaited() {
    let plane = ControlPlane::builder()
        .controller_manager(true)
        .start()
        .await
        .unwrap();
    with_namespace(&plane, async |namespace| {
        let driver = Driver::new(&plane, namespace.name());
        let before = make(&driver, "before");
        plane.stop_api_server().unwrap();
        let during = thread::scope(|scope| {
            let threads: Vec<_> = (0..10)
                .map(|number| {
                    let driver = &driver;
                    scope.spawn(move || make(driver, &format!("during-{number}")))
                })
                .collect();
            let changing = scope.spawn(|| {
                driver
                    .update(&before, &json!({"data": {"name": "changed"}}))
                    .unwrap()
            });
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current()
                    .block_on(plane.start_api_server())
                    .unwrap();
            });
            assert_eq!(changing.join().unwrap().live()["data"]["name"], "changed");
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect::<Vec<_>>()
        });
        let maps: Api<ConfigMap> = namespace.api();
        let found = maps.list(&ListParams::default().labels("")).await.unwrap();
        let of_us = found
            .items
            .iter()
            .filter(|map| map.metadata.name.as_ref().unwrap().starts_with("during-"));
        assert_eq!(of_us.count(), during.len());
    })
    .await;
}
