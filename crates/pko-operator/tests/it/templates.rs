//! Workspaces as the API server stores them: upstream's are taken over as they are, templates stay
//! as they were written, and a field with another owner is named.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use pko_api::{Stack, Update, Workspace, names::field_managers};
use pko_core::{
    Machine as _, Step,
    stack::{
        Location, ObservedStack, Prerequisites, ProgramSource, StackRead, StackResponse,
        StackWrite, Versions,
    },
};
use pko_testkit::{
    ControlPlane, ProgramBuilder, StackBuilder, TestNamespace, eventually, fixtures, shared_folder,
    with_namespace,
};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::{self, System},
    scripted_stacks::{credentials, patch_stack, ready},
};

/// Without controllers, which would remove a Workspace whose Stack is not there.
async fn plane() -> Arc<ControlPlane> {
    let plane = ControlPlane::shared().await.unwrap();
    plane.install_crds(&pko_api::crd::all()).await.unwrap();
    plane
}

/// A Stack that has changed since its last run, and what it would hear: its Workspace is the last
/// question.
struct Asking {
    stack: Stack,
    source: ProgramSource,
    others: Prerequisites,
    now: Timestamp,
}

impl Asking {
    fn workspace(mut self) -> Workspace {
        let generation = self.stack.metadata.generation.unwrap_or_default();
        self.stack.metadata.generation = Some(generation + 1);
        let mut observed = ObservedStack::new(self.stack.clone());
        loop {
            match observed.decide(self.now) {
                Step::Write(StackWrite::ApplyWorkspace(workspace, _)) => return *workspace,
                Step::Write(write) => panic!("{write:#?}"),
                Step::Read(read) => observed.observe(self.read(read)),
                Step::Finish(plan) => panic!("{}: {plan:#?}", self.stack.name_any()),
            }
        }
    }

    fn read(&self, read: StackRead) -> StackResponse {
        let versions = |names: std::collections::BTreeSet<String>| -> Versions {
            let names = names.into_iter();
            names.map(|name| (name, Some("1".to_owned()))).collect()
        };
        match read {
            StackRead::CurrentUpdate(_) => StackResponse::CurrentUpdate(None),
            StackRead::Source(_) => StackResponse::Source(Ok(self.source.clone())),
            StackRead::ConfigMaps(names) => StackResponse::ConfigMaps(versions(names)),
            StackRead::Secrets(names) => StackResponse::Secrets(versions(names)),
            StackRead::Prerequisites => StackResponse::Prerequisites(self.others.clone()),
            // One that runs would be used as it is, and nothing applied.
            StackRead::ExistingWorkspace(_) => StackResponse::ExistingWorkspace(None),
            StackRead::Outputs(secret) => panic!("outputs in {secret} are not read"),
        }
    }
}

fn of_kind<K: serde::de::DeserializeOwned>(objects: &[Value], kind: &str) -> Vec<K> {
    let objects = objects.iter().filter(|object| object["kind"] == kind);
    let objects = objects.map(|object| serde_json::from_value(object.clone()).unwrap());
    objects.collect()
}

async fn applied(client: &Client, workspace: &Workspace) -> Workspace {
    let manager = field_managers::OPERATOR;
    pko_kube::apply(client, workspace, manager).await.unwrap()
}

/// The source that a Workspace has.
fn source(workspace: &Workspace) -> ProgramSource {
    let spec = &workspace.spec;
    let artifact = spec.flux.clone().map(Location::Artifact);
    let project = spec.project_info.clone().map(Location::Project);
    ProgramSource {
        revision: String::new(),
        location: artifact.or(project).unwrap_or(Location::Given),
    }
}

#[tokio::test]
async fn upstream_workspaces_are_taken_over_unchanged() {
    let Some(folder) = shared_folder("fixtures/upstream-cluster") else {
        return;
    };
    let objects = fixtures::load(&folder).unwrap();
    let stacks: BTreeMap<String, Stack> = of_kind::<Stack>(&objects, "Stack")
        .into_iter()
        .map(|stack| (stack.name_any(), stack))
        .collect();
    let workspaces: Vec<Value> = objects
        .iter()
        .filter(|object| object["kind"] == "Workspace")
        .cloned()
        .collect();
    let plane = plane().await;
    fixtures::restore(&plane, &workspaces).await.unwrap();
    let client = plane.client().unwrap();
    let others: Prerequisites = stacks
        .iter()
        .map(|(name, stack)| (name.clone(), Ok(stack.clone())))
        .collect();
    for stored in of_kind::<Workspace>(&workspaces, "Workspace") {
        let name = stored.name_any();
        let asking = Asking {
            stack: stacks[&name].clone(),
            source: source(&stored),
            others: others.clone(),
            // When upstream had just left.
            now: "2026-11-15T20:40:00Z".parse().unwrap(),
        };
        let wanted = asking.workspace();
        let first = applied(&client, &wanted).await;
        assert_eq!(first.metadata.uid, stored.metadata.uid, "{name}");
        assert_eq!(
            first.metadata.generation, stored.metadata.generation,
            "{name}"
        );
        // What `pko-kube` reads has no managed fields.
        let workspaces = Api::<Workspace>::namespaced(client.clone(), &first.namespace().unwrap());
        let live = workspaces.get_metadata(&name).await.unwrap();
        assert_eq!(
            live.metadata.managed_fields, stored.metadata.managed_fields,
            "{name}"
        );
        let second = applied(&client, &wanted).await;
        assert_eq!(
            second.metadata.resource_version, first.metadata.resource_version,
            "{name}"
        );
    }
}

/// Every form in which a user may write a template.
fn template() -> Value {
    json!({
        "metadata": { "labels": { "team": "shop" }, "annotations": { "note": "ours" } },
        "spec": {
            "image": "registry.example.com/pulumi:1", "imagePullPolicy": "Always", "pulumiLogLevel": 3,
            "resources": { "limits": { "cpu": 2, "memory": "1024Mi" }, "requests": { "cpu": "0.5" } },
            "env": [{ "name": "EMPTY", "value": "" }, { "name": "CPU", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } }],
            "envFrom": [{ "prefix": "P_", "configMapRef": { "name": "settings", "optional": true } }],
            "podTemplate": {
                "metadata": { "annotations": { "sidecar": "none" } },
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "nodeSelector": { "disk": "fast" },
                    "tolerations": [{ "key": "spot", "operator": "Exists" }],
                    "containers": [
                        { "name": "side", "image": "side:1", "ports": [{ "containerPort": 80 }] },
                        { "name": "pulumi", "volumeMounts": [{ "name": "cache", "mountPath": "/cache", "readOnly": false }] },
                    ],
                    "initContainers": [{ "name": "first", "image": "first:1", "resources": { "limits": { "memory": "2048Mi" } } }],
                    "volumes": [
                        { "name": "cache", "emptyDir": { "sizeLimit": "1024Mi" } },
                        { "name": "claim", "ephemeral": { "volumeClaimTemplate": { "spec": {
                            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1024Mi" } },
                        } } } },
                    ],
                },
            },
            "stacks": [{ "name": "dev", "config": [{ "key": "a.b", "path": true, "value": 1 }] }],
        },
    })
}

#[tokio::test]
async fn workspace_template_is_stored_unchanged() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let secret =
            |name: &str| json!({ "type": "Secret", "secret": { "name": name, "key": "k" } });
        let stack = StackBuilder::new("demo")
            .stack("dev")
            .set("/spec/workspaceTemplate", template())
            .set(
                "/spec/secretsRef",
                json!({ "a": secret("tls.example.com"), "b": secret("plain") }),
            )
            .set("/spec/envs", json!(["settings"]))
            .build();
        let stored = namespace.create_object(stack).await.unwrap();
        let mut stored: Stack = serde_json::from_value(stored).unwrap();
        stored.metadata.finalizers = Some(vec!["finalizer.stack.pulumi.com".to_owned()]);
        let asking = Asking {
            stack: stored,
            source: ProgramSource {
                revision: String::new(),
                location: Location::Given,
            },
            others: Prerequisites::new(),
            now: Timestamp::now(),
        };
        let wanted = asking.workspace();
        let client = namespace.client();
        let first = applied(&client, &wanted).await;
        let spec = |workspace: &Workspace| serde_json::to_value(&workspace.spec).unwrap();
        let mut expected = spec(&wanted);
        // All that the API server adds
        expected["serviceAccountName"] = "default".into();
        expected["securityProfile"] = "restricted".into();
        expected["podTemplate"]["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP".into();
        assert_eq!(spec(&first), expected);
        let second = applied(&client, &wanted).await;
        assert_eq!(
            second.metadata.resource_version,
            first.metadata.resource_version
        );
    })
    .await;
}

/// A Stack whose template calls its Workspace `place`.
fn stack(system: &System, name: &str) -> StackBuilder {
    StackBuilder::new(name)
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .set("/spec/workspaceTemplate/metadata/name", "place")
}

/// Its Secret and its Program.
async fn prepared(namespace: &TestNamespace) {
    namespace.create_object(credentials()).await.unwrap();
    let program = ProgramBuilder::new("demo").output("one", 1).build();
    namespace.create_object(program).await.unwrap();
}

/// Somebody sets a field that the Stack's template sets, by force.
#[tokio::test]
async fn workspace_field_conflict_is_reported_and_resolved() {
    let system = System::start(&[]).await;
    harness::with_namespace(&system, async |namespace| {
        prepared(namespace).await;
        let stack = stack(&system, "demo")
            .set("/spec/workspaceTemplate/spec/imagePullPolicy", "Always")
            .build();
        namespace.create_object(stack).await.unwrap();
        ready(namespace, "demo").await;
        let workspaces = namespace.api::<Workspace>();
        let claim = async |spec: Value| {
            let claim = json!({
                "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Workspace",
                "metadata": { "name": "place" }, "spec": spec,
            });
            let parameters = PatchParams::apply("somebody").force();
            let claim = Patch::Apply(claim);
            workspaces.patch("place", &parameters, &claim).await.unwrap();
        };
        let trail = Trail::of(namespace, "demo");
        claim(json!({ "imagePullPolicy": "Never" })).await;
        let request = json!({ "pulumi.com/reconciliation-request": "again" });
        patch_stack(namespace, "demo", json!({ "metadata": { "annotations": request } })).await;
        let seen = trail.until("Stalled WorkspaceFailed: ").await;
        assert_eq!(
            seen.last().unwrap(),
            &format!(
                "Stalled WorkspaceFailed: failed to apply Workspace {}/place: Apply failed with 1 conflict: conflict with \
                 \"somebody\": .spec.imagePullPolicy; remove the other field manager from \
                 this field, or set the same value in spec.workspaceTemplate",
                namespace.name()
            )
        );
        claim(json!({})).await;
        trail.until("Ready ProcessingCompleted").await;
        let place = workspaces.get("place").await.unwrap();
        assert_eq!(place.spec.image_pull_policy.as_deref(), Some("Always"));
    })
    .await;
}

#[tokio::test]
async fn workspace_with_another_name_belongs_to_its_stack() {
    let system = System::start(&[]).await;
    harness::with_namespace(&system, async |namespace| {
        prepared(namespace).await;
        let own = stack(&system, "demo").set("/spec/updateTemplate/spec/message", "as we say");
        namespace.create_object(own.build()).await.unwrap();
        ready(namespace, "demo").await;
        let updates = namespace.api::<Update>();
        let updates = updates.list(&ListParams::default()).await.unwrap();
        let update = &updates.items[0].spec;
        assert_eq!(update.message.as_deref(), Some("as we say"));
        assert_eq!(update.workspace_name.as_deref(), Some("place"));

        // Another Stack does not get it, and does not take it along.
        let other = Trail::of(namespace, "other");
        let thief = stack(&system, "other").build();
        namespace.create_object(thief).await.unwrap();
        let seen = other.until("Stalled WorkspaceFailed: ").await;
        assert_eq!(
            seen.last().unwrap(),
            "Stalled WorkspaceFailed: the Workspace \"place\" belongs to the Stack \"demo\": set another name for one of \
             the two in spec.workspaceTemplate.metadata.name, or delete the Workspace if that Stack is gone"
        );
        let stacks = namespace.api::<Stack>();
        stacks
            .delete("other", &DeleteParams::foreground())
            .await
            .unwrap();
        other.until_gone().await;
        let workspaces = namespace.api::<Workspace>();
        workspaces.get("place").await.unwrap();

        patch_stack(namespace, "demo", json!({ "spec": { "workspaceReclaimPolicy": "Delete" } }),
        )
        .await;
        ready(namespace, "demo").await;
        eventually("the Workspace to be gone", async || {
            let left = workspaces.get_opt("place").await.unwrap();
            left.map_or(Ok(()), |left| Err(format!("{:?}", left.metadata)))
        })
        .await
        .unwrap();
    })
    .await;
}
