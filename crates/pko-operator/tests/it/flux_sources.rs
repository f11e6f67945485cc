//! Stacks whose programs are artifacts: Flux's own kinds, and others.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use pko_api::Workspace;
use pko_testkit::{
    StackBuilder,
    flux::{self, Artifact, ArtifactServer, SourceKind, SourceState, TestSource},
};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::{System, Watched, with_namespace},
};

const UNAVAILABLE: &str = "Stalled SourceUnavailable: could not resolve sourceRef:";

fn stack(system: &System, name: &str, reference: Value) -> StackBuilder {
    StackBuilder::new(name)
        .stack(name)
        .backend(&system.backend())
        .set("/spec/fluxSource/sourceRef", reference)
        .set(
            "/spec/envRefs",
            json!({ "PULUMI_CONFIG_PASSPHRASE": { "type": "Literal", "literal": { "value": "correct-horse" } } }),
        )
}

/// An artifact whose program, in this file, has this output.
fn publish(server: &ArtifactServer, source: &TestSource, file: &str, greeting: &str) -> Artifact {
    let program = format!("name: app\nruntime: yaml\noutputs:\n  greeting: {greeting}\n");
    let revision = source.revision(greeting);
    server.publish(source, &revision, &[(file, program.as_str())])
}

async fn greeting(trail: &Trail) -> Value {
    let outputs = trail.stack().await.status.unwrap().outputs.unwrap();
    outputs["greeting"].clone()
}

async fn revision(trail: &Trail) -> String {
    let last = trail.stack().await.status.unwrap().last_update.unwrap();
    last.last_successful_commit.unwrap()
}

/// A kind that is not installed, an object that is not there, one without an artifact, one with,
/// and with another: each is reported, and each leads to the next.
#[tokio::test]
async fn flux_source_kind_is_found_once_installed() {
    let system = System::start_watching(Watched::Cluster, &[]).await;
    let server = ArtifactServer::start().unwrap();
    with_namespace(&system, async |namespace| {
        let source = TestSource::new(SourceKind::GitRepository, namespace.name(), "infra");
        let trail = Trail::of(namespace, "demo");
        let demo = stack(&system, "demo", source.reference()).set("/spec/fluxSource/dir", "prod");
        namespace.create_object(demo.build()).await.unwrap();
        let missing =
            "no matches for kind \"GitRepository\" in version \"source.toolkit.fluxcd.io/v1\"";
        trail.until(&format!("{UNAVAILABLE} {missing}")).await;

        flux::install(&system.plane).await.unwrap();
        let missing = "gitrepositories.source.toolkit.fluxcd.io \"infra\" not found";
        trail.until(&format!("{UNAVAILABLE} {missing}")).await;

        namespace.create_object(source.object()).await.unwrap();
        let client = namespace.client();
        source
            .write(&client, &SourceState::Progressing)
            .await
            .unwrap();
        trail
            .until("Stalled SourceUnavailable: Flux source has no artifact")
            .await;

        let first = publish(&server, &source, "prod/Pulumi.yaml", "first");
        source
            .write(&client, &SourceState::Ready(first.clone()))
            .await
            .unwrap();
        trail.until("Ready").await;
        assert_eq!(greeting(&trail).await, "first");
        assert_eq!(revision(&trail).await, first.revision);
        let workspace = namespace.api::<Workspace>().get("demo").await.unwrap();
        assert_eq!(
            serde_json::to_value(workspace.spec.flux).unwrap(),
            json!({ "url": first.url, "digest": first.digest, "dir": "prod" })
        );

        // A source in trouble that has an artifact still deploys it, and its conditions are not
        // news.
        let failed = SourceState::Failed {
            stored: Some(first),
            message: "no route to host".to_owned(),
        };
        source.write(&client, &failed).await.unwrap();
        let second = publish(&server, &source, "prod/Pulumi.yaml", "second");
        source
            .write(&client, &SourceState::Ready(second.clone()))
            .await
            .unwrap();
        trail.until("Ready").await;
        assert_eq!(greeting(&trail).await, "second");
        assert_eq!(revision(&trail).await, second.revision);
        assert_eq!(system.executed("app", "demo"), 2);
    })
    .await;
}

/// Who may create a Stack must not make the manager read what it may read: Kubernetes' own kinds,
/// and those of others that the administrator has not allowed.
#[tokio::test]
async fn flux_source_group_needs_to_be_allowed() {
    let system = System::start_watching(Watched::Cluster, &[]).await;
    with_namespace(&system, async |namespace| {
        let group =
            |version: &str| format!("kind \"Thing\" in version \"{version}\" may not be a source");
        let cases = [
            ("v1", "ConfigMap"),
            ("apps/v1", "StatefulSet"),
            ("example.test/v1", "Thing"),
            ("pulumi.com/..", "Program"),
        ];
        for (number, (version, kind)) in cases.into_iter().enumerate() {
            let name = format!("hostile-{number}");
            let reference = json!({ "apiVersion": version, "kind": kind, "name": "made" });
            let hostile = stack(&system, &name, reference);
            namespace.create_object(hostile.build()).await.unwrap();
            let trail = Trail::of(namespace, &name);
            let seen = trail.until(UNAVAILABLE).await;
            let message = seen.last().unwrap();
            let expected = match kind {
                "Program" => "no matches for kind".to_owned(),
                "Thing" => format!(
                    "{}; start the manager with --flux-source-groups",
                    group(version)
                ),
                _ => format!(
                    "kind \"{kind}\" in version \"{version}\" may not be a source; name a kind"
                ),
            };
            assert!(message.contains(&expected), "{message}");
        }
        System::works(namespace, "victim").await;
    })
    .await;
}

/// A third-party kind, which the manager may read only after an administrator grants it.
#[tokio::test]
async fn flux_source_of_any_kind_needs_permission() {
    let system = System::start(&[("PKO_FLUX_SOURCE_GROUPS", "example.test")]).await;
    system.plane.install_crds(&[crd()]).await.unwrap();
    let server = ArtifactServer::start().unwrap();
    with_namespace(&system, async |namespace| {
        let client = namespace.client();
        let thing = json!({
            "apiVersion": "example.test/v1", "kind": "Thing", "metadata": { "name": "made" },
        });
        namespace.create_object(thing).await.unwrap();
        // Only the address of the archive is of interest, which is that of any source.
        let source = TestSource::new(SourceKind::Bucket, namespace.name(), "made");
        let artifact = publish(&server, &source, "Pulumi.yaml", "hello");
        let kind = GroupVersionKind::gvk("example.test", "v1", "Thing");
        let things: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), namespace.name(), &ApiResource::from_gvk(&kind));
        let status = Patch::Merge(json!({ "status": { "artifact": artifact } }));
        things.patch_status("made", &PatchParams::default(), &status).await.unwrap();

        let trail = Trail::of(namespace, "demo");
        let reference = json!({ "apiVersion": "example.test/v1", "kind": "Thing", "name": "made" });
        let demo = stack(&system, "demo", reference);
        namespace.create_object(demo.build()).await.unwrap();
        let seen = trail.until(UNAVAILABLE).await;
        let message = seen.last().unwrap();
        let way_out = "bind a role to the manager's service account that may get, list and watch things.example.test";
        assert!(message.ends_with(way_out), "{message}");

        let system_client = system.plane.client().unwrap();
        let roles = Api::<ClusterRole>::all(system_client.clone());
        create(roles, json!({
            "metadata": { "name": "things" },
            "rules": [{ "apiGroups": ["example.test"], "resources": ["things"], "verbs": ["get", "list", "watch"] }],
        })).await;
        let bindings = Api::<ClusterRoleBinding>::all(system_client);
        create(bindings, json!({
            "metadata": { "name": "things" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "things" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": system.user() }],
        })).await;
        trail.until("Ready").await;
        assert_eq!(greeting(&trail).await, "hello");
        assert_eq!(revision(&trail).await, artifact.revision);
    })
    .await;
}

async fn create<K>(objects: Api<K>, object: Value)
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let object = serde_json::from_value(object).unwrap();
    objects
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
}

/// A kind whose schema has nothing but a status.
fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.example.test" },
        "spec": {
            "group": "example.test", "scope": "Namespaced",
            "names": { "kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                } },
            }],
        },
    })
}
