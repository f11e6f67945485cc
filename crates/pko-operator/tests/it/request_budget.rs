//! What the operator costs the API server, counted from its audit log.

mod counts;
mod polls;

use pko_testkit::{ProgramBuilder, StackBuilder, TestNamespace};
use serde_json::json;

use crate::{
    events::Trail,
    harness::{System, Watched, with_namespace},
    scripted_stacks::publish,
};

/// Upstream's operator writes 28 times for the same, events included.
const MOST_WRITES: usize = 20;

async fn create_credentials(namespace: &TestNamespace) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "credentials" },
        "stringData": { "passphrase": "correct-horse" },
    });
    namespace.create_object(secret).await.unwrap();
}

/// A Stack of this name and its Program; comes when it is Ready and all is said.
async fn become_ready(system: &System, namespace: &TestNamespace, name: &str) {
    publish(
        namespace,
        ProgramBuilder::new(name).output("a", "b").build(),
    )
    .await;
    let trail = Trail::of(namespace, name);
    let stack = StackBuilder::new(name)
        .stack("dev")
        .backend(&system.backend())
        .program(name)
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .build();
    namespace.create_object(stack).await.unwrap();
    trail.until("Ready").await;
    trail.wait_for_last_writes().await;
}

#[tokio::test]
async fn manager_restart_writes_nothing_to_ready_stacks() {
    let mut system = System::start_watching(Watched::Cluster, &[]).await;
    let namespace = system.namespace().await;
    create_credentials(&namespace).await;
    become_ready(&system, &namespace, "demo").await;
    system.kill_manager();
    let mark = system.plane.audit_position().await.unwrap();
    system.start_manager();
    // By the time that a new one is Ready, the old one was looked at.
    become_ready(&system, &namespace, "other").await;
    let writes = system.requests_since(mark).await.writes();
    let writes = writes.only(|request| request.name.starts_with("demo"));
    assert!(writes.is_empty(), "{}", writes.counts());
}

#[tokio::test]
async fn first_update_takes_few_writes() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        create_credentials(namespace).await;
        let mark = system.plane.audit_position().await.unwrap();
        become_ready(&system, namespace, "demo").await;
        let requests = system.requests_since(mark).await;
        let counts = requests.counts();
        let writes = requests.writes().len();
        assert!(writes <= MOST_WRITES, "{writes} writes:\n{counts}");
    })
    .await;
}
