//! Stacks whose runs are the stand-in's, and what became of them.

use kube::{
    ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use pko_api::{Program, Stack, Update};
use pko_testkit::{ProgramBuilder, StackBuilder, StandIn, TestNamespace, eventually};
use serde_json::{Value, json};

use crate::harness::{System, folder_of};

/// The Secret that every such Stack needs.
pub(crate) fn credentials() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "credentials" },
        "stringData": { "passphrase": "correct-horse" },
    })
}

/// A namespace with that Secret.
pub(crate) async fn namespace(system: &System) -> TestNamespace {
    let namespace = system.namespace().await;
    namespace.create_object(credentials()).await.unwrap();
    namespace
}

/// Creates a Program and waits until it is published: who looks at each step of a Stack, or counts
/// its writes, does not need to see it wait for that.
pub(crate) async fn publish(namespace: &TestNamespace, program: Value) {
    let created = namespace.create_object(program).await.unwrap();
    let name = created["metadata"]["name"].as_str().unwrap();
    let published = eventually("the Program to be published", async || {
        let program = namespace.api::<Program>().get(name).await.unwrap();
        let artifact = program.status.and_then(|status| status.artifact);
        artifact.map(drop).ok_or("no artifact")
    });
    published.await.unwrap();
}

/// A Program and a Stack of it, both under this name.
pub(crate) async fn create_stack(
    namespace: &TestNamespace,
    system: &System,
    stand_in: &StandIn,
    name: &str,
) {
    create_stack_named(namespace, system, stand_in, name, "dev").await;
}

/// The same, of the stack of this name.
pub(crate) async fn create_stack_named(
    namespace: &TestNamespace,
    system: &System,
    stand_in: &StandIn,
    name: &str,
    stack: &str,
) {
    let program = ProgramBuilder::new(name)
        .resource("one", "pulumi:index:Stash", &json!({ "input": "v1" }))
        .output("size", 4)
        .build();
    namespace.create_object(program).await.unwrap();
    let stack = StackBuilder::new(name)
        .stack(stack)
        .backend(&system.backend())
        .program(name)
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .set("/spec/envRefs/PKO_STAND_IN", folder_of(stand_in))
        .build();
    namespace.create_object(stack).await.unwrap();
}

/// Changes a Stack as `kubectl patch` does.
pub(crate) async fn patch_stack(namespace: &TestNamespace, name: &str, change: Value) {
    let stacks = namespace.api::<Stack>();
    let change = Patch::Merge(change);
    let parameters = PatchParams::default();
    stacks.patch(name, &parameters, &change).await.unwrap();
}

/// Waits until so many `up` have begun.
pub(crate) async fn wait_for_runs(stand_in: &StandIn, count: usize) {
    eventually(format!("{count} runs to begin"), async || {
        let runs = stand_in.count("up");
        if runs == count { Ok(()) } else { Err(runs) }
    })
    .await
    .unwrap();
}

/// Waits until the Stack is ready and its current spec and request have run.
pub(crate) async fn ready(namespace: &TestNamespace, name: &str) {
    let ready = eventually(format!("{name} to be ready"), async || {
        // An API server that was away is no reason to give up.
        let stack = namespace.api::<Stack>().get(name).await;
        let stack = stack.map_err(|error| error.to_string())?;
        let status = stack.status.unwrap_or_default();
        let mut conditions = status.conditions.iter();
        let is_ready = conditions.any(|found| found.type_ == "Ready" && found.status == "True");
        let last = status.last_update.as_ref();
        let ran = last.and_then(|last| last.generation);
        if is_ready && ran == stack.metadata.generation {
            Ok(())
        } else {
            Err(format!("{status:#?}"))
        }
    });
    ready.await.unwrap();
}

/// The names of all Updates.
pub(crate) async fn updates(namespace: &TestNamespace) -> Vec<String> {
    let updates = namespace.api::<Update>();
    let updates = updates.list(&ListParams::default()).await.unwrap();
    updates.iter().map(Update::name_any).collect()
}
