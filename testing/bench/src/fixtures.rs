//! Objects around a manager: unrelated pods and Secrets, Stacks at rest, a Program.

use std::fmt::Debug;

use anyhow::Context;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Resource,
    api::{ListParams, PostParams},
    core::NamespaceResourceScope,
};
use pko_api::{Program, Stack};
use pko_testkit::{ProgramBuilder, StackBuilder, TestNamespace, eventually_within};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::manager::TIMEOUT;

/// Bytes of an unrelated Secret.
const SECRET_BYTES: usize = 10 * 1024;

/// Creates unrelated pods and Secrets. The pods are never scheduled.
pub(super) async fn create_unrelated_objects(
    namespace: &TestNamespace,
    count: u32,
) -> anyhow::Result<()> {
    for number in 0..count {
        let name = format!("foreign-{number}");
        create::<Pod>(namespace, pod(&name)).await?;
        create::<Secret>(namespace, secret(&name)).await?;
    }
    Ok(())
}

/// Creates Stacks that the manager stalls, and waits for that. Then they are at rest.
pub(super) async fn create_stalled_stacks(
    namespace: &TestNamespace,
    count: u32,
) -> anyhow::Result<()> {
    for number in 0..count {
        create::<Stack>(namespace, stalled_stack(&format!("stack-{number}"))).await?;
    }
    eventually_within(TIMEOUT, "the Stacks to be stalled", async || {
        let stacks = namespace.api::<Stack>().list(&ListParams::default()).await;
        let stacks = stacks.map_err(|error| error.to_string())?.items;
        let open = stacks.iter().filter(|stack| !is_stalled(stack)).count();
        if open == 0 {
            Ok(())
        } else {
            Err(format!("{open} are not"))
        }
    })
    .await?;
    Ok(())
}

/// Creates a Program and waits until the leader has written its status.
pub(super) async fn create_served_program(
    namespace: &TestNamespace,
    name: &str,
) -> anyhow::Result<()> {
    let program = ProgramBuilder::new(name).output("size", 4);
    create::<Program>(namespace, program.build()).await?;
    eventually_within(TIMEOUT, "a manager to write", async || {
        let program = namespace.api::<Program>().get(name).await;
        let status = program.map_err(|error| error.to_string())?.status;
        status.map(drop).ok_or_else(|| "none does".to_owned())
    })
    .await?;
    Ok(())
}

/// A Stack with a reference to a Secret of another namespace, which is not allowed.
fn stalled_stack(name: &str) -> Value {
    let secret = json!({ "namespace": "elsewhere", "name": "token", "key": "token" });
    StackBuilder::new(name)
        .stack("dev")
        .program("demo")
        .set(
            "/spec/envRefs/TOKEN",
            json!({ "type": "Secret", "secret": secret }),
        )
        .build()
}

fn is_stalled(stack: &Stack) -> bool {
    let conditions = stack.status.iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.type_ == "Stalled")
        .any(|condition| condition.status == "True")
}

pub(super) async fn create<K>(namespace: &TestNamespace, object: Value) -> anyhow::Result<()>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
    K::DynamicType: Default,
{
    let object: K = serde_json::from_value(object)?;
    let (api, parameters) = (namespace.api::<K>(), PostParams::default());
    api.create(&parameters, &object).await.with_context(|| {
        let name = object.meta().name.as_deref().unwrap_or_default();
        format!("failed to create {name}")
    })?;
    Ok(())
}

fn pod(name: &str) -> Value {
    let container = json!({ "name": "main", "image": "registry.example/foreign:1" });
    json!({ "metadata": { "name": name }, "spec": { "containers": [container] } })
}

fn secret(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "stringData": { "key": "x".repeat(SECRET_BYTES) } })
}
