//! Workspaces in pods: what their users see of them, in good days and bad ones.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Pod, Service, ServiceAccount},
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use pko_api::{Stack, Workspace};
use pko_testkit::{
    ProgramBuilder, Reply, Script, StackBuilder, StandIn, TestNamespace, UpdateBuilder,
    WorkspaceBuilder, eventually,
};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::{System, with_namespace},
};

const POD: &str = "demo-workspace-0";

async fn credentials(namespace: &TestNamespace) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "credentials" },
        "stringData": { "passphrase": "correct-horse" },
    });
    namespace.create_object(secret).await.unwrap();
}

/// A Program and a Stack of it.
async fn create_stack(system: &System, namespace: &TestNamespace) {
    credentials(namespace).await;
    let program = ProgramBuilder::new("demo")
        .set("/program/config", json!({ "size": { "type": "integer" } }))
        .output("size", "${size}")
        .build();
    namespace.create_object(program).await.unwrap();
    let stack = StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .config("size", 1)
        .destroy_on_finalize(true)
        .build();
    namespace.create_object(stack).await.unwrap();
}

/// A Workspace without a program, which is ready soon.
fn workspace(system: &System) -> Value {
    let mut workspace = WorkspaceBuilder::new("demo").build();
    workspace["spec"]["projectInfo"] = json!({ "name": "demo", "runtime": "yaml" });
    workspace["spec"]["env"] = environment(system, &[]);
    workspace
}

/// What every workspace needs, and more.
fn environment(system: &System, more: &[Value]) -> Value {
    let backend = json!({ "name": "PULUMI_BACKEND_URL", "value": system.backend() });
    let passphrase = json!({ "name": "PULUMI_CONFIG_PASSPHRASE", "value": "correct-horse" });
    let all = [backend, passphrase]
        .into_iter()
        .chain(more.iter().cloned());
    all.collect()
}

async fn change(namespace: &TestNamespace, spec: Value) {
    let patch = Patch::Merge(json!({ "spec": spec }));
    let workspaces = namespace.api::<Workspace>();
    workspaces
        .patch("demo", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Waits until the Workspace's Ready condition, about its spec of now, is like this: status,
/// reason, a part of the message.
async fn until(namespace: &TestNamespace, status: &str, reason: &str, message: &str) {
    let reached = eventually(format!("Ready={status}/{reason} {message}"), async || {
        let workspace = namespace.api::<Workspace>().get("demo").await.unwrap();
        let generation = workspace.metadata.generation;
        let found = workspace.status.unwrap_or_default();
        let mut conditions = found.conditions.iter();
        let ready = conditions.find(|condition| condition.type_ == "Ready");
        let is_it = ready.is_some_and(|ready| {
            ready.status == status && ready.reason == reason && ready.message.contains(message)
        });
        if is_it && found.observed_generation == generation {
            Ok(())
        } else {
            Err(format!("{ready:?}"))
        }
    });
    reached.await.unwrap();
}

async fn pod(namespace: &TestNamespace) -> Option<Pod> {
    namespace.api::<Pod>().get_opt(POD).await.unwrap()
}

async fn pod_uid(namespace: &TestNamespace) -> Option<String> {
    pod(namespace).await?.uid()
}

async fn request(namespace: &TestNamespace, value: &str) {
    let annotation = json!({ "pulumi.com/reconciliation-request": value });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotation } }));
    let stacks = namespace.api::<Stack>();
    stacks
        .patch("demo", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test]
async fn pod_is_kept_when_config_changes() {
    let system = System::in_pods(&[]).await;
    with_namespace(&system, async |namespace| {
        let trail = Trail::of(namespace, "demo");
        create_stack(&system, namespace).await;
        trail.until("Ready").await;
        let first = pod(namespace).await.unwrap();
        assert_eq!(
            first
                .annotations()
                .get("auto.pulumi.com/initialized")
                .map(String::as_str),
            Some("true")
        );
        for owner in [
            namespace
                .api::<StatefulSet>()
                .get("demo-workspace")
                .await
                .unwrap()
                .metadata,
            namespace
                .api::<Service>()
                .get("demo-workspace")
                .await
                .unwrap()
                .metadata,
        ] {
            let owners = owner.owner_references.unwrap_or_default();
            assert!(
                owners
                    .iter()
                    .any(|owner| owner.kind == "Workspace" && owner.controller == Some(true))
            );
        }

        let patch = Patch::Merge(json!({ "spec": { "config": { "size": 2 } } }));
        let stacks = namespace.api::<Stack>();
        stacks
            .patch("demo", &PatchParams::default(), &patch)
            .await
            .unwrap();
        eventually("the new value", async || {
            let outputs = trail
                .stack()
                .await
                .status
                .unwrap()
                .outputs
                .unwrap_or_default();
            if outputs.get("size") == Some(&json!(2)) {
                Ok(())
            } else {
                Err(format!("{outputs:?}"))
            }
        })
        .await
        .unwrap();
        assert_eq!(pod_uid(namespace).await, first.uid(), "the pod stays");

        stacks
            .delete("demo", &DeleteParams::default())
            .await
            .unwrap();
        eventually("everything to be gone", async || {
            let left = [
                stacks.get_opt("demo").await.unwrap().is_some(),
                namespace
                    .api::<Workspace>()
                    .get_opt("demo")
                    .await
                    .unwrap()
                    .is_some(),
                namespace
                    .api::<StatefulSet>()
                    .get_opt("demo-workspace")
                    .await
                    .unwrap()
                    .is_some(),
                pod(namespace).await.is_some(),
            ];
            if left.contains(&true) {
                Err(format!("{left:?}"))
            } else {
                Ok(())
            }
        })
        .await
        .unwrap();
    })
    .await;
}

#[tokio::test]
async fn manager_restart_writes_nothing_to_a_ready_workspace() {
    let mut system = System::in_pods(&[]).await;
    let namespace = system.namespace().await;
    let trail = Trail::of(&namespace, "demo");
    create_stack(&system, &namespace).await;
    trail.until("Ready").await;
    trail.wait_for_last_writes().await;
    system.kill_manager();
    let mark = system.plane.audit_position().await.unwrap();
    system.start_manager();
    // By the time that a new one is ready, the old one was looked at.
    let mut other = workspace(&system);
    other["metadata"]["name"] = json!("other");
    namespace.create_object(other).await.unwrap();
    eventually("the other one to be ready", async || {
        let other = namespace.api::<Workspace>().get("other").await.unwrap();
        let conditions = other.status.unwrap_or_default().conditions;
        let ready = conditions
            .iter()
            .any(|found| found.type_ == "Ready" && found.status == "True");
        if ready {
            Ok(())
        } else {
            Err(format!("{conditions:?}"))
        }
    })
    .await
    .unwrap();
    let writes = system.requests_since(mark).await.writes();
    let writes = writes.only(|request| request.name.starts_with("demo"));
    assert!(writes.is_empty(), "{}", writes.counts());
}

#[tokio::test]
async fn pod_failure_is_in_the_condition_until_it_passes() {
    let system = System::in_pods(&[]).await;
    with_namespace(&system, async |namespace| {
        system.node().break_image("nope:1");
        let mut broken = workspace(&system);
        broken["spec"]["image"] = json!("nope:1");
        broken["spec"]["serviceAccountName"] = json!("deployer");
        namespace.create_object(broken).await.unwrap();
        let message = "serviceaccount \"deployer\" not found";
        until(namespace, "False", "WaitingForReplicas", message).await;

        let mut account = ServiceAccount::default();
        account.metadata.name = Some("deployer".to_owned());
        let accounts = namespace.api::<ServiceAccount>();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        until(namespace, "False", "WaitingForReplicas", "container \"pulumi\": ").await;
        until(namespace, "False", "WaitingForReplicas", "nope:1").await;

        // A spec that is corrected replaces the pod that never came up.
        change(namespace, json!({ "image": "pulumi/pulumi:3.259.0-nonroot" })).await;
        until(namespace, "True", "Succeeded", "").await;

        assert!(system.node().kill_out_of_memory(namespace.name(), POD));
        until(namespace, "False", "WaitingForReplicas", "OOMKilled").await;
        until(namespace, "True", "Succeeded", "").await;

        let missing = json!({ "secretKeyRef": { "name": "later", "key": "token" } });
        let token = json!({ "name": "TOKEN", "valueFrom": missing });
        change(namespace, json!({ "env": environment(&system, &[token]) })).await;
        until(namespace, "False", "WaitingForReplicas", "secret \"later\" not found").await;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "later" }, "stringData": { "token": "x" },
        });
        namespace.create_object(secret).await.unwrap();
        until(namespace, "True", "Succeeded", "").await;

        let script = "echo cloning https://me:hunter2@git.test/a; exit 3";
        let failing = json!([{ "name": "extra", "image": "busybox", "command": ["sh", "-c", script] }]);
        change(namespace, json!({ "initContainers": failing })).await;
        let message = "init container \"extra\" failed with exit code 3";
        until(namespace, "False", "WaitingForReplicas", message).await;
        until(namespace, "False", "WaitingForReplicas", "cloning https://[secret]@git.test/a").await;
        let whole = json!(namespace.api::<Workspace>().get("demo").await.unwrap().status.unwrap().conditions);
        assert!(!whole.to_string().contains("hunter2"), "{whole}");

        system.node().set_unschedulable(true);
        change(namespace, json!({ "initContainers": null })).await;
        until(namespace, "False", "WaitingForReplicas", "the pod cannot be scheduled: Unschedulable").await;
        system.node().set_unschedulable(false);
        until(namespace, "True", "Succeeded", "").await;
    })
    .await;
}

#[tokio::test]
async fn pod_template_invalid_stalls_and_keeps_the_pod() {
    let system = System::in_pods(&[]).await;
    with_namespace(&system, async |namespace| {
        namespace.create_object(workspace(&system)).await.unwrap();
        until(namespace, "True", "Succeeded", "").await;
        let set = namespace
            .api::<StatefulSet>()
            .get("demo-workspace")
            .await
            .unwrap();
        let first = pod_uid(namespace).await;
        let template = |spec: Value| json!({ "podTemplate": { "spec": spec } });
        let mount = json!([{ "name": "nowhere", "mountPath": "/x" }]);
        for (spec, message) in [
            (
                template(json!({ "containers": [{ "name": "pulumi", "volumeMounts": mount }] })),
                "there is no volume `nowhere`",
            ),
            // Only the API server can tell.
            (
                template(
                    json!({ "containers": [{ "name": "pulumi" }], "restartPolicy": "Sometimes" }),
                ),
                "spec.template.spec.restartPolicy",
            ),
            (
                json!({ "podTemplate": null, "env": [{ "name": "POD_NAMESPACE", "value": "x" }] }),
                "spec.env[0]",
            ),
            (
                json!({ "env": environment(&system, &[]), "securityProfile": "loose" }),
                "spec.securityProfile",
            ),
            (
                json!({ "securityProfile": "restricted", "local": { "dir": "/x" } }),
                "spec.local and spec.projectInfo",
            ),
        ] {
            change(namespace, spec).await;
            until(namespace, "False", "InitializationFailed", message).await;
            let status = namespace
                .api::<Workspace>()
                .get("demo")
                .await
                .unwrap()
                .status
                .unwrap();
            assert!(
                status
                    .conditions
                    .iter()
                    .any(|found| found.type_ == "Stalled" && found.status == "True")
            );
        }
        let now = namespace
            .api::<StatefulSet>()
            .get("demo-workspace")
            .await
            .unwrap();
        assert_eq!(
            (now.uid(), now.metadata.generation),
            (set.uid(), set.metadata.generation)
        );
        assert_eq!(pod_uid(namespace).await, first);
        change(namespace, json!({ "local": null })).await;
        until(namespace, "True", "Succeeded", "").await;
        assert_eq!(pod_uid(namespace).await, first);
    })
    .await;
}

#[tokio::test]
async fn stateful_set_immutable_change_replaces_it() {
    let system = System::in_pods(&[]).await;
    with_namespace(&system, async |namespace| {
        // As a version of before may have left it.
        let old = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": { "name": "demo-workspace" },
            "spec": {
                "serviceName": "other", "replicas": 0,
                "selector": { "matchLabels": { "auto.pulumi.com/component": "workspace", "auto.pulumi.com/workspace-name": "demo" } },
                "template": {
                    "metadata": { "labels": { "auto.pulumi.com/component": "workspace", "auto.pulumi.com/workspace-name": "demo" } },
                    "spec": { "containers": [{ "name": "pulumi", "image": "pulumi/pulumi" }] },
                },
            },
        });
        let mut labelled = old;
        labelled["metadata"]["labels"] = labelled["spec"]["selector"]["matchLabels"].clone();
        let old: StatefulSet = namespace
            .api()
            .patch(
                "demo-workspace",
                &PatchParams::apply("pulumi-kubernetes-operator"),
                &Patch::Apply(labelled),
            )
            .await
            .unwrap();
        namespace.create_object(workspace(&system)).await.unwrap();
        until(namespace, "True", "Succeeded", "").await;
        let new = namespace.api::<StatefulSet>().get("demo-workspace").await.unwrap();
        assert_ne!(new.uid(), old.uid());
        let events = namespace.api::<k8s_openapi::api::core::v1::Event>();
        let events = events.list(&ListParams::default()).await.unwrap();
        let reasons = events.items.iter().filter_map(|event| event.reason.as_deref());
        assert_eq!(reasons.filter(|reason| *reason == "Migrated").count(), 1);
    })
    .await;
}

#[tokio::test]
async fn operator_upgrade_replaces_a_pod_at_its_next_run() {
    let mut system = System::in_pods(&[]).await;
    let namespace = system.namespace().await;
    let trail = Trail::of(&namespace, "demo");
    create_stack(&system, &namespace).await;
    trail.until("Ready").await;
    let first = pod_uid(&namespace).await;
    system.kill_manager();
    system.set("AGENT_IMAGE", "operator:new");
    system.start_manager();
    until(&namespace, "True", "Outdated", "").await;
    assert_eq!(pod_uid(&namespace).await, first);
    request(&namespace, "now").await;
    until(&namespace, "True", "Succeeded", "").await;
    trail.until("Ready").await;
    let second = pod(&namespace).await.unwrap();
    assert_ne!(second.uid(), first);
    let spec = second.spec.unwrap();
    let image = spec.init_containers.unwrap()[0].image.clone();
    assert_eq!(image.as_deref(), Some("operator:new"));
}

#[tokio::test]
async fn idle_workspace_has_no_pod_until_the_next_run() {
    let system = System::in_pods(&[("PKO_WORKSPACE_IDLE_TIMEOUT", "1s")]).await;
    with_namespace(&system, async |namespace| {
        let trail = Trail::of(namespace, "demo");
        create_stack(&system, namespace).await;
        trail.until("Ready").await;
        until(namespace, "True", "Idle", "").await;
        eventually("the pod to be gone", async || {
            pod(namespace).await.map_or(Ok(()), |_| Err("it is there"))
        })
        .await
        .unwrap();
        request(namespace, "now").await;
        eventually("the request to be served", async || {
            let runs = system.executed("demo", "dev");
            if runs == 2 { Ok(()) } else { Err(runs) }
        })
        .await
        .unwrap();
    })
    .await;
}

#[tokio::test]
async fn pod_is_not_replaced_during_a_run() {
    let stand_in = StandIn::program().display().to_string();
    let system = System::in_pods(&[("PKO_PULUMI", &stand_in)]).await;
    let script = Script::new().on("up", Reply::new().waits_for("gate").run_default());
    let stand_in = system.stand_in(&script);
    with_namespace(&system, async |namespace| {
        let mut workspace = workspace(&system);
        let folder = json!({ "name": "PKO_STAND_IN", "value": stand_in.folder() });
        workspace["spec"]["env"] = environment(&system, std::slice::from_ref(&folder));
        namespace.create_object(workspace).await.unwrap();
        until(namespace, "True", "Succeeded", "").await;
        let first = pod_uid(namespace).await;
        let update = UpdateBuilder::new("one", "demo", "dev", "up").build();
        namespace.create_object(update).await.unwrap();
        eventually("the run to begin", async || {
            if stand_in.count("up") == 1 {
                Ok(())
            } else {
                Err("not yet")
            }
        })
        .await
        .unwrap();
        let env = environment(&system, &[folder, json!({ "name": "NEW", "value": "1" })]);
        change(namespace, json!({ "env": env })).await;
        until(namespace, "False", "RollingUpdate", "when the run").await;
        assert_eq!(pod_uid(namespace).await, first);
        stand_in.create("gate");
        eventually("the Update to succeed", async || {
            let update = namespace.api::<pko_api::Update>().get("one").await.unwrap();
            let conditions = update.status.unwrap_or_default().conditions;
            let done = |kind: &str, status: &str| {
                conditions
                    .iter()
                    .any(|found| found.type_ == kind && found.status == status)
            };
            if done("Complete", "True") && done("Failed", "False") {
                Ok(())
            } else {
                Err(format!("{conditions:?}"))
            }
        })
        .await
        .unwrap();
        until(namespace, "True", "Succeeded", "").await;
        assert_ne!(pod_uid(namespace).await, first);
        assert_eq!(stand_in.count("up"), 1);
    })
    .await;
}

#[tokio::test]
async fn pod_deleted_is_not_ready_and_is_recreated() {
    let system = System::in_pods(&[]).await;
    with_namespace(&system, async |namespace| {
        namespace.create_object(workspace(&system)).await.unwrap();
        until(namespace, "True", "Succeeded", "").await;
        system.node().pause();
        let pods = namespace.api::<Pod>();
        pods.delete(POD, &DeleteParams::default()).await.unwrap();
        until(namespace, "False", "WaitingForReplicas", "").await;
        system.node().resume();
        until(namespace, "True", "Succeeded", "").await;
    })
    .await;
}
