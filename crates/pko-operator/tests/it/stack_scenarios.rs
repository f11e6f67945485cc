//! Those of upstream's scenarios of a Stack that need an API server, by their numbers. The others
//! are beside the rules, where a list says where each of them is.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams};
use pko_api::{
    Stack, Update, Workspace,
    names::{field_managers, finalizers},
};
use pko_testkit::{
    ProgramBuilder, Reply, Script, StackBuilder, StandIn, TestNamespace, eventually,
};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::{System, folder_of},
    scripted_stacks::{self, create_stack, credentials, patch_stack, ready, wait_for_runs},
};

async fn last_update(namespace: &TestNamespace) -> String {
    let stack = namespace.api::<Stack>().get("demo").await.unwrap();
    let last = stack.status.unwrap().last_update.unwrap();
    last.name.unwrap()
}

/// Waits until the last Update is another one.
async fn next_update(namespace: &TestNamespace, before: &str) {
    let next = eventually("the next Update to end", async || {
        let last = last_update(namespace).await;
        if last == before { Err(last) } else { Ok(()) }
    });
    next.await.unwrap();
}

/// A manager whose `pulumi` is the stand-in, which follows this script.
async fn scripted_system(script: &Script) -> (System, StandIn) {
    let program = StandIn::program().display().to_string();
    let system = System::start(&[("PKO_PULUMI", program.as_str())]).await;
    let stand_in = system.stand_in(script);
    (system, stand_in)
}

/// 1, 95 and 103: a write does not re-create a deleted object, and objects of others stay
/// unchanged.
#[tokio::test]
async fn scenarios_1_95_and_103_no_orphans_and_no_labels_lost() {
    let (system, stand_in) = scripted_system(&Script::new()).await;
    let namespace = scripted_stacks::namespace(&system).await;
    create_stack(&namespace, &system, &stand_in, "demo").await;
    ready(&namespace, "demo").await;
    let first = last_update(&namespace).await;
    let updates = namespace.api::<Update>();
    let parameters = DeleteParams::default();
    updates.delete(&first, &parameters).await.unwrap();

    let metadata = json!({
        "labels": { "team": "shop" }, "annotations": { "pulumi.com/reconciliation-request": "again" },
    });
    patch_stack(&namespace, "demo", json!({ "metadata": metadata })).await;
    next_update(&namespace, &first).await;
    ready(&namespace, "demo").await;
    assert_eq!(
        updates.get_opt(&first).await.unwrap(),
        None,
        "95: it is let go, and not made"
    );
    let stack = namespace.api::<Stack>().get("demo").await.unwrap();
    let labels = stack.metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels.get("team").map(String::as_str), Some("shop"), "103");
    let observed = stack.status.unwrap().observed_generation;
    assert_eq!(observed, stack.metadata.generation, "103");

    let trail = Trail::of(&namespace, "demo");
    let stacks = namespace.api::<Stack>();
    stacks.delete("demo", &parameters).await.unwrap();
    trail.until_gone().await;
    // Its going wakes the Stack that is gone.
    eventually("the Workspace to be gone", async || {
        let left = namespace.api::<Workspace>().get_opt("demo").await.unwrap();
        left.map_or(Ok(()), |_| Err("it is there"))
    })
    .await
    .unwrap();
    create_stack(&namespace, &system, &stand_in, "other").await;
    ready(&namespace, "other").await;
    assert_eq!(stacks.get_opt("demo").await.unwrap(), None, "1");
    namespace.remove().await.unwrap();
}

/// 94 to 96: our finalizer is on the current Update from its beginning, and goes once its result is
/// recorded, whichever client put it there; another's stays. Upstream can't remove one that another field
/// manager owns.
#[tokio::test]
async fn scenarios_94_to_96_update_is_held_until_recorded() {
    let script = Script::new().on("up", Reply::new().waits_for("gate").run_default());
    let (system, stand_in) = scripted_system(&script).await;
    let namespace = scripted_stacks::namespace(&system).await;
    create_stack(&namespace, &system, &stand_in, "demo").await;
    wait_for_runs(&stand_in, 1).await;
    let stack = namespace.api::<Stack>().get("demo").await.unwrap();
    let name = stack.status.unwrap().current_update.unwrap().name.unwrap();
    let updates = namespace.api::<Update>();
    let held = updates.get(&name).await.unwrap().metadata.finalizers;
    let ours = || finalizers::STACK.to_owned();
    assert!(held.unwrap().contains(&ours()), "94");

    for (manager, finalizer) in [
        (field_managers::STACK_FINALIZER, finalizers::STACK),
        ("somebody", "example.com/hold"),
    ] {
        let applied = json!({
            "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Update",
            "metadata": { "name": name, "finalizers": [finalizer] },
        });
        let parameters = PatchParams::apply(manager);
        let applied = Patch::Apply(applied);
        updates.patch(&name, &parameters, &applied).await.unwrap();
    }
    stand_in.create("gate");
    ready(&namespace, "demo").await;
    let kept = eventually("our finalizer to be gone", async || {
        let kept = updates.get(&name).await.unwrap().metadata.finalizers;
        let kept = kept.unwrap_or_default();
        if kept.contains(&ours()) {
            Err(format!("{kept:?}"))
        } else {
            Ok(kept)
        }
    });
    let kept = kept.await.unwrap();
    assert!(
        kept.contains(&"example.com/hold".to_owned()),
        "95: {kept:?}"
    );
    let change = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    updates
        .patch(&name, &PatchParams::default(), &change)
        .await
        .unwrap();
    namespace.remove().await.unwrap();
}

/// A Program with one output, and a Stack of it in which these fields are.
async fn create(namespace: &TestNamespace, system: &System, fields: Value) {
    let program = ProgramBuilder::new("demo").output("size", 4).build();
    namespace.create_object(program).await.unwrap();
    let mut stack = StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .build();
    let spec = stack["spec"].as_object_mut().unwrap();
    spec.extend(fields.as_object().unwrap().clone());
    namespace.create_object(stack).await.unwrap();
}

fn template(fields: &Value) -> Value {
    json!({ "spec": { "workspaceTemplate": { "spec": fields } } })
}

async fn pod(namespace: &TestNamespace) -> Option<Pod> {
    let pods = namespace.api::<Pod>();
    pods.get_opt("demo-workspace-0").await.unwrap()
}

/// 137: a container of the template brings a variable that the workspace needs; an image that can't
/// be had, and then one that can; a Workspace that stays, and then one that goes.
#[tokio::test]
async fn scenario_137_a_variable_from_a_container_a_bad_image_and_reclaim() {
    let system = System::in_pods(&[]).await;
    let namespace = system.namespace().await;
    let script = "echo 'PULUMI_CONFIG_PASSPHRASE=correct-horse' > /share/.env";
    let extra = json!({
        "name": "extra", "image": "busybox", "command": ["sh", "-c", script],
        "volumeMounts": [{ "name": "share", "mountPath": "/share" }],
    });
    let pod_template =
        json!({ "spec": { "initContainers": [extra], "containers": [{ "name": "pulumi" }] } });
    let fields = template(&json!({ "podTemplate": pod_template }))["spec"].clone();
    create(&namespace, &system, fields).await;
    ready(&namespace, "demo").await;
    assert!(pod(&namespace).await.is_some(), "it is retained");

    system.node().break_image("nope:1");
    let trail = Trail::of(&namespace, "demo");
    patch_stack(&namespace, "demo", template(&json!({ "image": "nope:1" }))).await;
    let waiting = "Reconciling StackProcessing: waiting for workspace readiness";
    trail
        .until(&format!("{waiting} (WaitingForReplicas: "))
        .await;
    let image = "pulumi/pulumi:3.259.0-nonroot";
    patch_stack(&namespace, "demo", template(&json!({ "image": image }))).await;
    trail.until("Ready").await;
    assert!(pod(&namespace).await.is_some(), "it is retained");

    let delete = json!({ "spec": { "workspaceReclaimPolicy": "Delete" } });
    patch_stack(&namespace, "demo", delete).await;
    eventually("the pod to be gone", async || {
        pod(&namespace).await.map_or(Ok(()), |_| Err("it is there"))
    })
    .await
    .unwrap();
    ready(&namespace, "demo").await;
    namespace.remove().await.unwrap();
}

/// 137: values that are not text need a newer CLI than the workspace has, until it has one.
#[tokio::test]
async fn scenario_137_a_cli_that_is_too_old() {
    let program = StandIn::program().display().to_string();
    let system = System::in_pods(&[("PKO_PULUMI", program.as_str())]).await;
    let stand_in = system.stand_in(&Script::new().version("3.147.0"));
    let namespace = system.namespace().await;
    let passphrase = json!({ "type": "Literal", "literal": { "value": "correct-horse" } });
    let fields = json!({
        "config": { "object": { "deep": [1, true, null] } },
        "envRefs": { "PKO_STAND_IN": folder_of(&stand_in), "PULUMI_CONFIG_PASSPHRASE": passphrase },
    });
    let trail = Trail::of(&namespace, "demo");
    create(&namespace, &system, fields).await;
    let stalled = "Stalled PulumiVersionTooLow: IncompatibleConfiguration: ";
    trail.until(stalled).await;
    assert_eq!(stand_in.count("up"), 0);

    stand_in.set_script(&Script::new());
    let image = "pulumi/pulumi:3.259.0-nonroot";
    patch_stack(&namespace, "demo", template(&json!({ "image": image }))).await;
    trail.until("Ready").await;
    namespace.remove().await.unwrap();
}

/// 137: config of all types, inline and from a ConfigMap.
#[tokio::test]
async fn scenario_137_config_of_all_types() {
    let system = System::start(&[]).await;
    let namespace = system.namespace().await;
    namespace.create_object(credentials()).await.unwrap();
    let values = [
        ("text", json!({ "type": "string" }), json!("a b")),
        ("number", json!({ "type": "integer" }), json!(42)),
        ("flag", json!({ "type": "boolean" }), json!(true)),
        (
            "list",
            json!({ "type": "array", "items": { "type": "integer" } }),
            json!([1, 2]),
        ),
        (
            "object",
            json!({ "type": "object" }),
            json!({ "deep": [1, { "er": "yes" }] }),
        ),
    ];
    let mut program = ProgramBuilder::new("demo");
    let mut stack = StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase");
    let mut data = serde_json::Map::new();
    for (key, kind, value) in &values {
        for (prefix, reference) in [("inline", false), ("referred", true)] {
            let name = format!("{prefix}_{key}");
            program = program.output(&name, format!("${{{name}}}"));
            program = program.set(&format!("/program/config/{name}"), kind.clone());
            if reference {
                let place = json!({ "name": "values", "key": key, "json": *key != "text" });
                stack = stack.set(&format!("/spec/configRef/{name}"), place);
            } else {
                stack = stack.set(&format!("/spec/config/{name}"), value.clone());
            }
        }
        let text = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        data.insert((*key).to_owned(), text.into());
    }
    let config_map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "values" }, "data": data });
    namespace.create_object(config_map).await.unwrap();
    namespace.create_object(program.build()).await.unwrap();
    namespace.create_object(stack.build()).await.unwrap();
    ready(&namespace, "demo").await;
    let stack = namespace.api::<Stack>().get("demo").await.unwrap();
    let outputs = stack.status.unwrap().outputs.unwrap();
    for (key, _, value) in values {
        for prefix in ["inline", "referred"] {
            assert_eq!(
                outputs.get(&format!("{prefix}_{key}")),
                Some(&value),
                "{prefix} {key}"
            );
        }
    }
    namespace.remove().await.unwrap();
}
