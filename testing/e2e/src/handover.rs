//! From one manager to the next, while runs go on: none is interrupted, and none is made twice.

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, ResourceExt as _, api::DeleteParams};
use pko_testkit::eventually_within;

use crate::{
    place::alone,
    system::{
        DEPLOYMENT, MANAGER, NEXT_OPERATOR_IMAGE, OPERATOR_NAMESPACE, PATIENCE, System,
        install_file,
    },
};

const LEASE: &str = "operator.pulumi.com";
const TARGET: &str = "deployment/controller-manager";

/// The pod of the manager that leads, which is one of these.
async fn leader(system: &System) -> String {
    let client = system.client().await;
    let leases: Api<Lease> = Api::namespaced(client, OPERATOR_NAMESPACE);
    let led = eventually_within(PATIENCE, "a leader", async || {
        let lease = leases.get(LEASE).await.map_err(|error| error.to_string())?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        let holder = holder.unwrap_or_default();
        let managers = system.managers().await;
        let names = managers.iter().map(Pod::name_any);
        let mut leading = names.filter(|name| holder.starts_with(name));
        leading.next().ok_or(holder)
    });
    led.await.unwrap()
}

/// As the install file has it again.
async fn restore(system: &System) {
    let file = install_file();
    system.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    system.until_rolled_out().await;
}

#[tokio::test]
async fn the_other_replica_takes_over_a_run_and_ends_it() {
    alone(async |place| {
        let system = place.system;
        let scale = |count: &str| {
            let replicas = format!("--replicas={count}");
            system.kubectl(&["scale", "-n", OPERATOR_NAMESPACE, TARGET, &replicas]);
        };
        scale("2");
        system.until_rolled_out().await;
        place.create_slow("demo", "30s").await;
        let first = leader(system).await;
        let pods: Api<Pod> = Api::namespaced(place.client(), OPERATOR_NAMESPACE);
        pods.delete(&first, &DeleteParams::default()).await.unwrap();
        let second = leader(system).await;
        assert_ne!(second, first);
        place.ready("demo").await;
        place.ran_once("demo").await;
        scale("1");
        system.until_rolled_out().await;
    })
    .await;
}

#[tokio::test]
async fn an_upgrade_of_the_operator_interrupts_no_run_and_moves_no_pod_in_use() {
    alone(async |place| {
        let system = place.system;
        place.create_simple("idle").await;
        place.ready("idle").await;
        for name in ["one", "two"] {
            place.create_slow(name, "45s").await;
        }
        let mut pods = Vec::new();
        for name in ["idle", "one", "two"] {
            pods.push(place.pod_uid(name).await);
        }
        let image = format!("{MANAGER}={NEXT_OPERATOR_IMAGE}");
        system.kubectl(&["set", "image", "-n", OPERATOR_NAMESPACE, TARGET, &image]);
        let agent = format!("AGENT_IMAGE={NEXT_OPERATOR_IMAGE}");
        system.kubectl(&["set", "env", "-n", OPERATOR_NAMESPACE, TARGET, &agent]);
        system.until_rolled_out().await;
        for name in ["one", "two"] {
            place.ready(name).await;
            place.ran_once(name).await;
        }
        for (name, uid) in ["idle", "one", "two"].iter().zip(&pods) {
            assert_eq!(&place.pod_uid(name).await, uid, "{name}");
        }
        // The next run is in a pod with the new agent
        place.request("idle", "again").await;
        place.ready("idle").await;
        assert_ne!(place.pod_uid("idle").await, pods[0]);
        let spec = place.pod("idle").await.unwrap().spec.unwrap();
        let init = spec.init_containers.unwrap();
        assert_eq!(init[0].image.as_deref(), Some(NEXT_OPERATOR_IMAGE));
        restore(system).await;
        assert!(leader(system).await.starts_with(DEPLOYMENT));
    })
    .await;
}
