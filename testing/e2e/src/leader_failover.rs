//! A new manager takes over while runs are in progress: none is interrupted or repeated.

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, ResourceExt as _, api::DeleteParams};
use pko_testkit::eventually_within;

use crate::{
    operator_cluster::{
        DEPLOYMENT, MANAGER, NEXT_OPERATOR_IMAGE, OPERATOR_NAMESPACE, OperatorCluster, PATIENCE,
        install_file,
    },
    test_env::run_exclusively,
};

const LEASE: &str = "operator.pulumi.com";
const TARGET: &str = "deployment/controller-manager";

/// The pod of the current leader.
async fn leader(operator: &OperatorCluster) -> String {
    let client = operator.client().await;
    let leases: Api<Lease> = Api::namespaced(client, OPERATOR_NAMESPACE);
    let led = eventually_within(PATIENCE, "a leader", async || {
        let lease = leases.get(LEASE).await.map_err(|error| error.to_string())?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity);
        let holder = holder.unwrap_or_default();
        let managers = operator.managers().await;
        let names = managers.iter().map(Pod::name_any);
        let mut leading = names.filter(|name| holder.starts_with(name));
        leading.next().ok_or(holder)
    });
    led.await.unwrap()
}

/// As the install file has it again.
async fn restore(operator: &OperatorCluster) {
    let file = install_file();
    operator.kubectl(&["apply", "-f", file.to_str().unwrap()]);
    operator.wait_for_rollout().await;
}

#[tokio::test]
async fn standby_manager_takes_over_running_update() {
    run_exclusively(async |env| {
        let operator = env.operator;
        let scale = |count: &str| {
            let replicas = format!("--replicas={count}");
            operator.kubectl(&["scale", "-n", OPERATOR_NAMESPACE, TARGET, &replicas]);
        };
        scale("2");
        operator.wait_for_rollout().await;
        env.create_slow("demo", "30s").await;
        let first = leader(operator).await;
        let pods: Api<Pod> = Api::namespaced(env.client(), OPERATOR_NAMESPACE);
        pods.delete(&first, &DeleteParams::default()).await.unwrap();
        let second = leader(operator).await;
        assert_ne!(second, first);
        env.wait_for_ready("demo").await;
        env.assert_ran_once("demo").await;
        scale("1");
        operator.wait_for_rollout().await;
    })
    .await;
}

#[tokio::test]
async fn operator_upgrade_keeps_runs_and_busy_pods() {
    run_exclusively(async |env| {
        let operator = env.operator;
        env.create_simple("idle").await;
        env.wait_for_ready("idle").await;
        for name in ["one", "two"] {
            env.create_slow(name, "45s").await;
        }
        let mut pods = Vec::new();
        for name in ["idle", "one", "two"] {
            pods.push(env.pod_uid(name).await);
        }
        let image = format!("{MANAGER}={NEXT_OPERATOR_IMAGE}");
        operator.kubectl(&["set", "image", "-n", OPERATOR_NAMESPACE, TARGET, &image]);
        let agent = format!("AGENT_IMAGE={NEXT_OPERATOR_IMAGE}");
        operator.kubectl(&["set", "env", "-n", OPERATOR_NAMESPACE, TARGET, &agent]);
        operator.wait_for_rollout().await;
        for name in ["one", "two"] {
            env.wait_for_ready(name).await;
            env.assert_ran_once(name).await;
        }
        for (name, uid) in ["idle", "one", "two"].iter().zip(&pods) {
            assert_eq!(&env.pod_uid(name).await, uid, "{name}");
        }
        // The next run is in a pod with the new agent
        env.request_run("idle", "again").await;
        env.wait_for_ready("idle").await;
        assert_ne!(env.pod_uid("idle").await, pods[0]);
        let spec = env.pod("idle").await.unwrap().spec.unwrap();
        let init = spec.init_containers.unwrap();
        assert_eq!(init[0].image.as_deref(), Some(NEXT_OPERATOR_IMAGE));
        restore(operator).await;
        assert!(leader(operator).await.starts_with(DEPLOYMENT));
    })
    .await;
}
