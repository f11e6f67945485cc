//! The fields of a Stack that upstream's does not have, on the real API server with the embedded
//! engine: where outputs go, how many Updates are kept, how long a run may take, what a destroy
//! leaves, and rest.

use std::{collections::BTreeMap, path::PathBuf};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use pko_api::{Stack, Update};
use pko_testkit::{ProgramBuilder, StackBuilder, TestNamespace, eventually};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::System,
    scripted_stacks::{self, patch_stack},
};

/// A namespace with a Program `demo` that exports the config of its Stack.
async fn stage(system: &System) -> TestNamespace {
    let namespace = scripted_stacks::namespace(system).await;
    let program = ProgramBuilder::new("demo")
        .set(
            "/program/config",
            json!({ "size": { "type": "integer" }, "token": { "type": "string", "secret": true } }),
        )
        .resource("one", "pulumi:index:Stash", &json!({ "input": "v${size}" }))
        .output("url", "https://x/${size}")
        .output("size", "${size}")
        .output("token", "${token}")
        .build();
    namespace.create_object(program).await.unwrap();
    namespace
}

/// A Stack of that Program.
fn stack(system: &System, name: &str) -> StackBuilder {
    StackBuilder::new(name)
        .stack(name)
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .config("size", 1)
        .set("/spec/secrets", json!({ "token": "hunter2" }))
}

async fn request(namespace: &TestNamespace, name: &str, value: &str) {
    let annotations = json!({ "pulumi.com/reconciliation-request": value });
    patch_stack(
        namespace,
        name,
        json!({ "metadata": { "annotations": annotations } }),
    )
    .await;
    let done = eventually(format!("{name} to have done as asked"), async || {
        let stack = namespace.api::<Stack>().get(name).await.unwrap();
        let status = stack.status.unwrap_or_default();
        let last = status.last_update.clone().unwrap_or_default();
        let asked = last.reconcile_request.as_deref() == Some(value);
        if asked && status.current_update.is_none() {
            Ok(())
        } else {
            Err(format!("{status:#?}"))
        }
    });
    done.await.unwrap();
}

async fn config_map(namespace: &TestNamespace, name: &str) -> BTreeMap<String, String> {
    let found = namespace.api::<ConfigMap>().get(name).await.unwrap();
    found.data.unwrap_or_default()
}

async fn secret(namespace: &TestNamespace, name: &str) -> BTreeMap<String, String> {
    let found = namespace.api::<Secret>().get(name).await.unwrap();
    let data = found.data.unwrap_or_default().into_iter();
    data.map(|(key, value)| (key, String::from_utf8(value.0).unwrap()))
        .collect()
}

fn data<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    BTreeMap::from(pairs)
}

async fn is_gone<K>(objects: &Api<K>, name: &str)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    eventually(format!("{name} to be gone"), async || {
        let found = objects.get_metadata_opt(name).await.unwrap();
        found.map_or(Ok(()), |found| Err(format!("{:?}", found.metadata)))
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn outputs_are_published_to_named_objects() {
    let system = System::start(&[]).await;
    let namespace = stage(&system).await;
    let foreign = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "foreign" }, "data": { "mine": "1" },
    });
    namespace.create_object(foreign).await.unwrap();
    let targets = json!([
        { "kind": "Secret", "name": "all" },
        { "kind": "Secret", "name": "chosen", "keys": { "URL": "url", "TOKEN": "token" } },
        { "kind": "ConfigMap", "name": "plain" },
        { "kind": "ConfigMap", "name": "foreign" },
        { "kind": "ConfigMap", "name": "wrong", "keys": { "SIZE": "size", "TOKEN": "token", "NOBODY": "nobody" } },
    ]);
    let trail = Trail::of(&namespace, "demo");
    let wanted = stack(&system, "demo").set("/spec/outputsTo", targets);
    namespace.create_object(wanted.build()).await.unwrap();
    trail.until("Ready").await;

    let all = [("url", "https://x/1"), ("size", "1"), ("token", "hunter2")];
    assert_eq!(secret(&namespace, "all").await, data(all));
    let chosen = data([("URL", "https://x/1"), ("TOKEN", "hunter2")]);
    assert_eq!(secret(&namespace, "chosen").await, chosen);
    let plain = data([("url", "https://x/1"), ("size", "1")]);
    assert_eq!(config_map(&namespace, "plain").await, plain);
    assert_eq!(config_map(&namespace, "wrong").await, data([("SIZE", "1")]));
    assert_eq!(
        config_map(&namespace, "foreign").await,
        data([("mine", "1")])
    );

    // The failure is reported, the update still succeeded, and no secret is in the text.
    let told = [
        "spec.outputsTo[4].keys.NOBODY refers to output \"nobody\", which the program does not export; export it or remove the key",
        "spec.outputsTo[4].keys.TOKEN refers to the secret output \"token\"; use a Secret instead of a ConfigMap",
        "spec.outputsTo[3]: the ConfigMap \"foreign\" does not belong to this Stack: delete it or choose another name",
    ];
    let told = told.join("; ");
    let last = trail.stack().await.status.unwrap().last_update.unwrap();
    assert_eq!(last.message.as_deref(), Some(&*told));
    let event = format!("Warning StackOutputRetrievalFailure: {told}");
    trail.wait_for_event(&event).await;

    // Each update writes them again, whatever other clients changed.
    let broken = json!({ "stringData": { "URL": "somebody's" } });
    let secrets = namespace.api::<Secret>();
    let parameters = PatchParams::default();
    let broken = Patch::Merge(broken);
    let patched = secrets.patch("chosen", &parameters, &broken).await;
    patched.unwrap();
    let targets = json!([
        { "kind": "Secret", "name": "chosen", "keys": { "URL": "url" } }, { "kind": "ConfigMap", "name": "plain" },
    ]);
    let edited = json!({ "spec": { "config": { "size": 2 }, "outputsTo": targets } });
    patch_stack(&namespace, "demo", edited).await;
    trail.until("Ready").await;
    assert_eq!(
        secret(&namespace, "chosen").await,
        data([("URL", "https://x/2")])
    );
    let plain = data([("url", "https://x/2"), ("size", "2")]);
    assert_eq!(config_map(&namespace, "plain").await, plain);
    let last = trail.stack().await.status.unwrap().last_update.unwrap();
    assert_eq!(last.message, None, "nothing is wrong any more");

    // They are deleted with the Stack, and no other object is.
    let stacks = namespace.api::<Stack>();
    let deleted = stacks.delete("demo", &DeleteParams::default()).await;
    deleted.unwrap();
    is_gone(&secrets, "chosen").await;
    is_gone(&secrets, "all").await;
    is_gone(&namespace.api::<ConfigMap>(), "plain").await;
    assert_eq!(
        config_map(&namespace, "foreign").await,
        data([("mine", "1")])
    );

    let requests = system.requests().await;
    let refused = requests.only(|request| request.code == 403);
    assert!(refused.is_empty(), "{}", refused.counts());
}

#[tokio::test]
async fn update_history_limit_and_run_timeout_apply() {
    let system = System::start(&[]).await;
    let namespace = stage(&system).await;
    let wanted = stack(&system, "demo")
        .set("/spec/timeoutSeconds", 3600)
        .set("/spec/successfulUpdatesHistoryLimit", 2)
        .set("/spec/failedUpdatesHistoryLimit", 1);
    namespace.create_object(wanted.build()).await.unwrap();
    for round in ["1", "2", "3", "4"] {
        request(&namespace, "demo", round).await;
    }
    let last = namespace.api::<Stack>().get("demo").await.unwrap();
    let last = last.status.unwrap().last_update.unwrap().name.unwrap();
    let updates = namespace.api::<Update>();
    let kept = eventually("two Updates to be left", async || {
        let kept = updates.list(&ListParams::default()).await.unwrap().items;
        let names: Vec<String> = kept.iter().map(Update::name_any).collect();
        if names.len() == 2 && names.contains(&last) {
            Ok(kept)
        } else {
            Err(names.join(" "))
        }
    });
    for update in kept.await.unwrap() {
        assert_eq!(update.spec.timeout_seconds, Some(3600));
        assert_eq!(update.metadata.deletion_timestamp, None);
    }

    // Updates that fail have a limit of their own.
    let broken = json!({ "spec": { "config": { "size": "no number" } } });
    patch_stack(&namespace, "demo", broken).await;
    for round in ["5", "6"] {
        request(&namespace, "demo", round).await;
    }
    let left = eventually("two that succeeded and one that failed", async || {
        let left = updates.list(&ListParams::default()).await.unwrap().items;
        let failed = |update: &&Update| {
            let status = update.status.as_ref().unwrap();
            let mut conditions = status.conditions.iter();
            conditions.any(|found| found.type_ == "Failed" && found.status == "True")
        };
        let counts = (left.len(), left.iter().filter(failed).count());
        if counts == (3, 1) {
            Ok(())
        } else {
            Err(format!("{counts:?}"))
        }
    });
    left.await.unwrap();
}

/// Where the backend keeps a stack of the Program.
fn state_of(system: &System, stack: &str) -> PathBuf {
    let backend = system.backend();
    let folder = backend.strip_prefix("file://").unwrap();
    PathBuf::from(folder).join(format!(".pulumi/stacks/demo/{stack}.json"))
}

#[tokio::test]
async fn destroy_keeps_the_stack_in_its_backend_by_default() {
    let system = System::start(&[]).await;
    let namespace = stage(&system).await;
    let stacks = namespace.api::<Stack>();
    for (name, removed) in [("stays", false), ("goes", true)] {
        let wanted = stack(&system, name)
            .destroy_on_finalize(true)
            .set("/spec/removeStackOnDestroy", removed);
        namespace.create_object(wanted.build()).await.unwrap();
    }
    for name in ["stays", "goes"] {
        scripted_stacks::ready(&namespace, name).await;
        assert!(state_of(&system, name).exists(), "{name}");
        stacks.delete(name, &DeleteParams::default()).await.unwrap();
        is_gone(&stacks, name).await;
    }
    assert!(state_of(&system, "stays").exists());
    assert!(!state_of(&system, "goes").exists());
}

#[tokio::test]
async fn suspended_stack_runs_nothing_and_can_be_deleted() {
    let system = System::start(&[]).await;
    let namespace = stage(&system).await;
    let suspend = |value: bool| json!({ "spec": { "suspend": value } });
    let trail = Trail::of(&namespace, "demo");
    let wanted = stack(&system, "demo")
        .set("/spec/suspend", true)
        .destroy_on_finalize(true);
    namespace.create_object(wanted.build()).await.unwrap();
    assert_eq!(
        trail.until("Stalled Suspended").await,
        [
            "Stalled Suspended: the stack is suspended: its first update starts once spec.suspend is false"
        ]
    );
    assert_eq!(scripted_stacks::updates(&namespace).await, [""; 0]);

    patch_stack(&namespace, "demo", suspend(false)).await;
    trail.until("Ready ProcessingCompleted").await;
    patch_stack(&namespace, "demo", suspend(true)).await;
    let resting = "Ready Suspended: the stack is suspended: its last update succeeded; set spec.suspend to false to allow another";
    assert_eq!(trail.until("Ready Suspended").await, [resting]);

    // What is changed meanwhile waits, and is observed.
    patch_stack(
        &namespace,
        "demo",
        json!({ "spec": { "config": { "size": 7 } } }),
    )
    .await;
    eventually("the change to be seen", async || {
        let stack = trail.stack().await;
        let seen = stack.status.unwrap().observed_generation;
        if seen == stack.metadata.generation {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        }
    })
    .await
    .unwrap();
    assert_eq!(system.executed("demo", "demo"), 1);

    // A deletion is never held up.
    let stacks = namespace.api::<Stack>();
    stacks
        .delete("demo", &DeleteParams::default())
        .await
        .unwrap();
    trail.until_gone().await;
    assert_eq!(system.executed("demo", "demo"), 2, "it was destroyed");
}

/// A Program with an output of this many levels and one of this many bytes.
async fn create_large_program(namespace: &TestNamespace, name: &str, levels: usize, bytes: usize) {
    // A document of that many levels is rejected before it runs.
    let half = |inner: Value| (0..levels / 2).fold(inner, |inner, _| json!([inner]));
    let program = ProgramBuilder::new(name)
        .resource("one", "pulumi:index:Stash", &json!({ "input": "v" }))
        .output("small", 1)
        .output("large", "x".repeat(bytes))
        .set("/program/variables", json!({ "half": half(json!(1)) }))
        .output("deep", half("${half}".into()))
        .build();
    namespace.create_object(program).await.unwrap();
}

fn large_stack(system: &System, name: &str) -> StackBuilder {
    StackBuilder::new(name)
        .stack(name)
        .backend(&system.backend())
        .program(name)
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
}

#[tokio::test]
async fn outputs_too_deep_or_large_stay_in_the_secret() {
    let system = System::start(&[]).await;
    let namespace = scripted_stacks::namespace(&system).await;
    create_large_program(&namespace, "demo", 70, 300_000).await;
    let stack = large_stack(&system, "demo").build();
    namespace.create_object(stack).await.unwrap();
    scripted_stacks::ready(&namespace, "demo").await;

    let stack = namespace.api::<Stack>().get("demo").await.unwrap();
    let status = stack.status.unwrap();
    assert_eq!(json!(status.outputs), json!({ "small": 1 }));
    let last = status.last_update.unwrap();
    let message = last.message.unwrap();
    assert!(
        message.contains("does not show the outputs \"deep\", \"large\""),
        "{message}"
    );
    let name = format!("{}-stack-outputs", last.name.unwrap());
    assert!(message.contains(&name), "{message}");
    let all = secret(&namespace, &name).await;
    assert_eq!(all.keys().collect::<Vec<_>>(), ["deep", "large", "small"]);
    assert!(all["deep"].starts_with(&"[".repeat(70)));
}

/// Creates a Stack that has too little space left for large outputs, and enough for all else.
async fn create_almost_too_large(system: &System, namespace: &TestNamespace) {
    let stack = |count: usize| {
        let labels = (0..count).map(|number| (format!("label-{number}"), "x".repeat(63).into()));
        let labels = Value::Object(labels.collect());
        let stack = large_stack(system, "demo").set("/metadata/labels", labels);
        namespace.create_object(stack.build())
    };
    let mut count = 30_000;
    while stack(count).await.is_err() {
        count -= 1000;
    }
    let stacks = namespace.api::<Stack>();
    stacks
        .delete("demo", &DeleteParams::default())
        .await
        .unwrap();
    is_gone(&stacks, "demo").await;
    // The first apply adds managed fields, a fourth of what a label has.
    stack(count * 4 / 5 - 1000).await.unwrap();
}

#[tokio::test]
async fn status_that_the_api_server_rejects_is_written_without_its_outputs() {
    let system = System::start(&[]).await;
    let namespace = scripted_stacks::namespace(&system).await;
    create_large_program(&namespace, "demo", 2, 240_000).await;
    create_almost_too_large(&system, &namespace).await;
    scripted_stacks::ready(&namespace, "demo").await;

    let stacks = namespace.api::<Stack>();
    let status = stacks.get("demo").await.unwrap().status.unwrap();
    assert_eq!(status.outputs, None);
    let ready = status
        .conditions
        .iter()
        .find(|found| found.type_ == "Ready");
    let message = &ready.unwrap().message;
    assert!(
        message.contains("the status lacks outputs, because"),
        "{message}"
    );
    stacks
        .delete("demo", &DeleteParams::default())
        .await
        .unwrap();
    is_gone(&stacks, "demo").await;
}
