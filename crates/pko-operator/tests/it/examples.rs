//! The manifests that newcomers apply, as they are, where workspaces are processes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use kube::api::DeleteParams;
use pko_api::Stack;
use pko_testkit::TestNamespace;
use serde_json::json;

use crate::{
    events::Trail,
    harness::{System, with_namespace},
    scripted_stacks::patch_stack,
};

/// Where this checkout is.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn apply(system: &System, namespace: &TestNamespace, manifest: &Path) {
    let mut kubectl = system.plane.kubectl().unwrap();
    kubectl.args(["apply", "-n", namespace.name(), "-f"]);
    let output = kubectl.arg(manifest).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

/// Where a claim of the namespace is kept.
fn claim(system: &System, namespace: &TestNamespace) -> PathBuf {
    let claims = system.workspaces().join(namespace.name()).join(".volumes");
    claims.join("hello-state")
}

/// The number of runs recorded in a claim, and whether its state has resources.
fn recorded(claim: &Path) -> (usize, bool) {
    let history = fs::read_dir(claim.join(".pulumi/history/hello/dev"));
    let names = history.into_iter().flatten().flatten();
    let names = names.map(|file| file.file_name().to_string_lossy().into_owned());
    let runs = names.filter(|name| name.ends_with(".history.json")).count();
    let checkpoint = fs::read_to_string(claim.join(".pulumi/stacks/hello/dev.json"));
    let checkpoint = checkpoint.unwrap_or_default();
    (runs, checkpoint.contains("pulumi:index:Stash"))
}

#[tokio::test]
async fn hello_example_becomes_ready_and_keeps_its_state() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        let trail = Trail::of(namespace, "hello");
        apply(
            &system,
            namespace,
            &root().join("examples/hello/stack.yaml"),
        );
        trail.until("Ready").await;
        let outputs = json!(trail.stack().await.status.unwrap().outputs);
        let expected =
            json!({ "greeting": "hello, Kubernetes", "password": "[secret]", "stack": "dev" });
        assert_eq!(outputs, expected);
        let claim = claim(&system, namespace);
        assert_eq!(recorded(&claim), (1, true));

        // Another environment has another agent, which finds the state again.
        let literal = json!({ "type": "Literal", "literal": { "value": "another" } });
        let change = json!({ "spec": { "envRefs": { "ANOTHER": literal } } });
        patch_stack(namespace, "hello", change).await;
        trail.until("Ready").await;
        assert_eq!(recorded(&claim), (2, true));

        let stacks = namespace.api::<Stack>();
        let parameters = DeleteParams::default();
        stacks.delete("hello", &parameters).await.unwrap();
        trail.until_gone().await;
        assert_eq!(
            recorded(&claim),
            (3, false),
            "it was destroyed, and is kept"
        );
    })
    .await;
}

#[tokio::test]
async fn readme_manifest_becomes_ready_unchanged() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        let readme = fs::read_to_string(root().join("README.md")).unwrap();
        let (_, block) = readme.split_once("```yaml\n").unwrap();
        let (manifest, _) = block.split_once("```\n").unwrap();
        let file = system.subfolder().join("readme.yaml");
        fs::write(&file, manifest).unwrap();
        let trail = Trail::of(namespace, "hello");
        apply(&system, namespace, &file);
        trail.until("Ready").await;
        let outputs = trail.stack().await.status.unwrap().outputs.unwrap();
        assert_eq!(outputs["greeting"], json!("hello from dev"));
        assert_eq!(recorded(&claim(&system, namespace)).0, 1);
    })
    .await;
}
