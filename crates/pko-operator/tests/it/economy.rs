//! What the operator costs the API server, counted from its audit log.

mod counts;
mod polls;

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use pko_testkit::{ProgramBuilder, StackBuilder, TestNamespace, eventually};
use serde_json::json;

use crate::{
    scripted::publish,
    system::{System, Watched, with_namespace},
    trail::Trail,
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
    // The last writes: an event for the Stack, and one for its Update, in either order.
    let event = "Normal StackCreated: Successfully updated stack";
    trail.told(event).await;
    wait_for_update_event(namespace, name).await;
}

async fn wait_for_update_event(namespace: &TestNamespace, stack: &str) {
    let events = namespace.api::<Event>();
    let is_of_update = |event: &Event| {
        let object = &event.involved_object;
        let name = object.name.as_deref().unwrap_or_default();
        object.kind.as_deref() == Some("Update") && name.starts_with(stack)
    };
    eventually("the event of the Update", async || {
        let found = events.list(&ListParams::default()).await;
        let found = found.map_err(|error| error.to_string())?.items;
        let is_there = found.iter().any(is_of_update);
        if is_there {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_manager_that_starts_again_writes_nothing_to_what_is_well() {
    let mut system = System::start_watching(Watched::Cluster, &[]).await;
    let namespace = system.namespace().await;
    create_credentials(&namespace).await;
    become_ready(&system, &namespace, "demo").await;
    system.kill_manager();
    let mark = system.plane.audit_mark().await.unwrap();
    system.start_manager();
    // By the time that a new one is Ready, the old one was looked at.
    become_ready(&system, &namespace, "other").await;
    let writes = system.requests_since(mark).await.writes();
    let writes = writes.only(|request| request.name.starts_with("demo"));
    assert!(writes.is_empty(), "{}", writes.counts());
}

#[tokio::test]
async fn a_first_update_takes_few_writes() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        create_credentials(namespace).await;
        let mark = system.plane.audit_mark().await.unwrap();
        become_ready(&system, namespace, "demo").await;
        let requests = system.requests_since(mark).await;
        let counts = requests.counts();
        let writes = requests.writes().len();
        assert!(writes <= MOST_WRITES, "{writes} writes:\n{counts}");
    })
    .await;
}
