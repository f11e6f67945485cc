//! Whole programs, by the command line of the engine.

use std::{fmt::Write as _, thread};

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams};
use pko_testkit::{ControlPlane, TestNamespace, eventually, with_namespace};
use serde_json::{Value, json};

use super::{beside, config_map_kind, meddle, plane, stored};
use crate::stage::{Done, Stage, finish};

/// A project whose stack config holds the provider's cluster.
struct ClusterProject {
    stage: Stage,
}

impl ClusterProject {
    fn new(plane: &ControlPlane, namespace: &TestNamespace, resources: &str) -> Self {
        let project = Self {
            stage: Stage::empty(),
        };
        project.write(resources);
        project.stage.ok(&["stack", "init", "dev"]);
        let kubeconfig = plane.kubeconfig();
        for (key, value) in [
            ("kubernetes:kubeconfig", kubeconfig.to_str().unwrap()),
            ("kubernetes:namespace", namespace.name()),
            ("kubernetes:enableConfigMapMutable", "true"),
        ] {
            project
                .stage
                .ok(&["config", "set", key, value, "--stack", "dev"]);
        }
        project
    }

    fn write(&self, resources: &str) {
        self.stage.write(
            "Pulumi.yaml",
            &format!("name: demo\nruntime: yaml\n{resources}"),
        );
    }

    fn run(&self, words: &[&str]) -> Done {
        tokio::task::block_in_place(|| {
            let mut command = self.stage.command(words);
            command.args(["--stack", "dev"]);
            finish(command)
        })
    }

    fn ok(&self, words: &[&str]) -> Done {
        let done = self.run(words);
        assert_eq!(done.code, Some(0), "{words:?}: {done:?}");
        done
    }

    fn up(&self) -> Done {
        self.ok(&["up", "--yes", "--skip-preview"])
    }

    /// The resources in the state, without providers and the stack itself.
    fn resources(&self) -> Vec<Value> {
        let exported = self.ok(&["stack", "export"]).stdout;
        let state: Value = serde_json::from_str(&exported).unwrap();
        let resources = state["deployment"]["resources"].as_array().cloned();
        let resources = resources.unwrap_or_default();
        let is_object = |resource: &Value| {
            resource["type"]
                .as_str()
                .unwrap()
                .starts_with("kubernetes:")
        };
        resources.into_iter().filter(is_object).collect()
    }
}

async fn config_maps(namespace: &TestNamespace) -> Vec<ConfigMap> {
    let api: Api<ConfigMap> = namespace.api();
    let found = api.list(&ListParams::default()).await.unwrap().items;
    let is_ours = |map: &ConfigMap| map.metadata.name.as_deref() != Some("kube-root-ca.crt");
    found.into_iter().filter(is_ours).collect()
}

const TWO: &str = "
resources:
  settings:
    type: kubernetes:core/v1:ConfigMap
    properties:
      data: { level: LEVEL }
  credentials:
    type: kubernetes:core/v1:Secret
    properties:
      metadata: { name: credentials }
      stringData: { of: '${settings.metadata.name}', password: hush-hush }
outputs:
  name: ${settings.metadata.name}
  place: ${settings.metadata.namespace}
";

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_program_lifecycle_succeeds() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let project = ClusterProject::new(&plane, namespace, &TWO.replace("LEVEL", "low"));
        project.ok(&["preview"]);
        assert_eq!(config_maps(namespace).await.len(), 0);

        project.up();
        let name: Value =
            serde_json::from_str(&project.ok(&["stack", "output", "--json"]).stdout).unwrap();
        assert_eq!(name["place"], namespace.name());
        let name = name["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("settings-"), "{name}");
        let secrets: Api<Secret> = namespace.api();
        let secret = secrets.get("credentials").await.unwrap().data.unwrap();
        assert_eq!(secret["of"].0, name.as_bytes());
        let all = project.stage.everything();
        assert!(
            !all.replace("password: hush-hush", "").contains("hush-hush"),
            "a secret is in the clear"
        );
        project.ok(&["up", "--yes", "--skip-preview", "--expect-no-changes"]);

        project.write(&TWO.replace("LEVEL", "high"));
        project.ok(&["preview", "--diff"]);
        assert_eq!(
            stored(namespace, &config_map_kind(), &name).await.unwrap()["data"]["level"],
            "low"
        );
        project.up();
        assert_eq!(
            stored(namespace, &config_map_kind(), &name).await.unwrap()["data"]["level"],
            "high"
        );

        // another name of the user is another object, and what depends on it follows
        project.write(&TWO.replace("data: { level: LEVEL }", "metadata: { name: mine }"));
        project.up();
        let names: Vec<_> = config_maps(namespace)
            .await
            .into_iter()
            .filter_map(|map| map.metadata.name)
            .collect();
        assert_eq!(names, ["mine"]);
        assert_eq!(
            secrets.get("credentials").await.unwrap().data.unwrap()["of"].0,
            b"mine"
        );

        project.ok(&["destroy", "--yes", "--skip-preview"]);
        assert_eq!(config_maps(namespace).await.len(), 0);
        assert_eq!(project.resources(), Vec::<Value>::new());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_is_seen_by_a_refresh_and_set_right_by_an_up() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let project = ClusterProject::new(&plane, namespace, &TWO.replace("LEVEL", "low"));
        project.up();
        let name = config_maps(namespace)
            .await
            .remove(0)
            .metadata
            .name
            .unwrap();
        meddle(
            namespace,
            &config_map_kind(),
            &name,
            "kubectl-edit",
            json!({"data": {"level": "other"}}),
        )
        .await;
        let refreshed = project.run(&["refresh", "--yes", "--skip-preview", "--expect-no-changes"]);
        assert_ne!(refreshed.code, Some(0), "{refreshed:?}");
        project.ok(&["refresh", "--yes", "--skip-preview"]);
        project.up();
        assert_eq!(
            stored(namespace, &config_map_kind(), &name).await.unwrap()["data"]["level"],
            "low"
        );
        // an object that others deleted is created again
        let maps: Api<ConfigMap> = namespace.api();
        maps.delete(&name, &kube::api::DeleteParams::default())
            .await
            .unwrap();
        project.ok(&["refresh", "--yes", "--skip-preview"]);
        project.up();
        assert_eq!(config_maps(namespace).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_manifest_fails_and_state_keeps_rest() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let program = "
resources:
  good: { type: 'kubernetes:core/v1:ConfigMap', properties: { metadata: { name: good } } }
  bad:
    type: kubernetes:apps/v1:Deployment
    properties: { metadata: { name: bad }, spec: { replcas: 1 } }
    options: { dependsOn: ['${good}'] }
";
        let project = ClusterProject::new(&plane, namespace, program);
        let failed = project.run(&["preview"]);
        assert!(format!("{failed:?}").contains("replcas"), "{failed:?}");
        let failed = project.run(&["up", "--yes", "--skip-preview"]);
        assert_ne!(failed.code, Some(0));
        assert!(format!("{failed:?}").contains("replcas"), "{failed:?}");
        let ids: Vec<_> = project
            .resources()
            .iter()
            .map(|resource| resource["id"].clone())
            .collect();
        assert_eq!(ids, [json!(format!("{}/good", namespace.name()))]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unready_workload_is_kept_and_next_run_continues() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let program = "
resources:
  web:
    type: kubernetes:core/v1:Pod
    properties:
      metadata: { name: web }
      spec: { containers: [{ name: web, image: example.com/web }] }
    options: { customTimeouts: { create: 2s } }
";
        let project = ClusterProject::new(&plane, namespace, program);
        let failed = project.run(&["up", "--yes", "--skip-preview"]);
        assert_ne!(failed.code, Some(0));
        assert!(format!("{failed:?}").contains("timed out waiting to be ready"), "{failed:?}");
        let remembered = project.resources();
        assert_eq!(remembered[0]["id"], format!("{}/web", namespace.name()));
        assert!(!remembered[0]["initErrors"].as_array().unwrap().is_empty());
        let pods: Api<Pod> = namespace.api();
        let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        pods.patch_status("web", &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
        project.up();
        assert!(project.resources()[0].get("initErrors").is_none());
        project.ok(&["destroy", "--yes", "--skip-preview"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn program_creates_crd_and_object() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let group = format!("{}.example.org", namespace.name());
        let program = format!(
            "
resources:
  kind:
    type: kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition
    properties:
      metadata: {{ name: gadgets.{group} }}
      spec:
        group: {group}
        scope: Namespaced
        names: {{ kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList }}
        versions:
          - name: v1
            served: true
            storage: true
            schema:
              openAPIV3Schema:
                type: object
                properties: {{ spec: {{ type: object, properties: {{ size: {{ type: integer }} }} }} }}
  one:
    type: kubernetes:{group}/v1:Gadget
    properties: {{ metadata: {{ name: one }}, spec: {{ size: 3 }} }}
    options: {{ dependsOn: ['${{kind}}'] }}
  two:
    type: kubernetes:apiextensions.k8s.io:CustomResource
    properties:
      apiVersion: {group}/v1
      kind: Gadget
      metadata: {{ name: two }}
      spec: {{ size: '${{one.spec.size}}' }}
"
        );
        let project = ClusterProject::new(&plane, namespace, &program);
        project.ok(&["preview"]);
        project.up();
        let kind = json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget"});
        assert_eq!(stored(namespace, &kind, "two").await.unwrap()["spec"]["size"], 3);
        project.ok(&["up", "--yes", "--skip-preview", "--expect-no-changes"]);
        project.ok(&["destroy", "--yes", "--skip-preview"]);
    })
    .await;
}

fn crowd(count: usize) -> String {
    let mut program = "\nresources:\n".to_owned();
    for number in 0..count {
        let kind = "kubernetes:core/v1:ConfigMap";
        writeln!(
            program,
            "  crowd-{number}: {{ type: '{kind}', properties: {{ data: {{ a: b }} }} }}"
        )
        .unwrap();
    }
    program
}

#[tokio::test(flavor = "multi_thread")]
async fn program_of_two_hundred_objects_is_created_and_destroyed() {
    let plane = plane().await;
    with_namespace(&plane, async |namespace| {
        let project = ClusterProject::new(&plane, namespace, &crowd(200));
        project.up();
        assert_eq!(config_maps(namespace).await.len(), 200);
        project.ok(&["up", "--yes", "--skip-preview", "--expect-no-changes"]);
        project.ok(&["destroy", "--yes", "--skip-preview"]);
        assert_eq!(config_maps(namespace).await.len(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn program_survives_api_server_restart() {
    let plane = ControlPlane::builder()
        .controller_manager(true)
        .start()
        .await
        .unwrap();
    with_namespace(&plane, async |namespace| {
        let project = ClusterProject::new(&plane, namespace, &crowd(60));
        let restart = async {
            eventually("the first object", async || {
                match config_maps(namespace).await.len() {
                    0 => Err("none yet"),
                    _ => Ok(()),
                }
            })
            .await
            .unwrap();
            plane.stop_api_server().unwrap();
            thread::sleep(std::time::Duration::from_secs(1));
            plane.start_api_server().await.unwrap();
        };
        beside(
            || project.ok(&["up", "--yes", "--skip-preview", "--parallel", "2"]),
            restart,
        );
        assert_eq!(config_maps(namespace).await.len(), 60);
    })
    .await;
}
