//! The manifests that new users apply, unchanged, and the errors for a missing state volume.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use serde_json::json;

use crate::{
    cli::{Cli, on_each_cli},
    operator_cluster::{WORKSPACE_IMAGE, workspace_image},
    stacks::{program, program_stack, text, workspace},
    test_env::{TestEnv, run_concurrently},
};

/// The claim of both manifests.
const CLAIM: &str = "hello-state";
/// The group of the workspace's user, which both manifests name as `fsGroup`.
const GROUP: u32 = 1000;

on_each_cli! {
    hello_example_survives_new_pod_and_is_destroyed
    missing_state_volume_is_reported
    unwritable_state_volume_is_reported
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder of this machine that only root can write to, as a new volume mostly is.
fn new_volume(env: &TestEnv<'_>, name: &str) -> PathBuf {
    let folder = env.state_folder();
    let folder = folder.with_file_name(format!("{}-{name}", env.name()));
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn kubectl(env: &TestEnv<'_>, arguments: &[&str]) -> String {
    let namespace = ["-n", env.name()];
    env.operator.kubectl(&[&namespace, arguments].concat())
}

/// The example, with the image of this test's CLI.
fn hello_manifest(env: &TestEnv<'_>) -> PathBuf {
    let example = root().join("examples/hello/stack.yaml");
    let image = WORKSPACE_IMAGE.trim_start_matches("docker.io/");
    let text = fs::read_to_string(&example).unwrap();
    assert!(text.contains(&format!("image: {image}\n")), "{text}");
    if Cli::of_this_test() == Cli::Engine {
        return example;
    }
    let file = env.state_folder().join("hello.yaml");
    fs::write(&file, text.replace(image, workspace_image())).unwrap();
    file
}

/// The number of runs in the history, and whether the checkpoint has resources.
fn backend_history(volume: &Path) -> (usize, bool) {
    let history = fs::read_dir(volume.join(".pulumi/history/hello/dev"));
    let names = history.into_iter().flatten().flatten();
    let names = names.map(|file| file.file_name().to_string_lossy().into_owned());
    let runs = names.filter(|name| name.ends_with(".history.json")).count();
    let checkpoint = fs::read_to_string(volume.join(".pulumi/stacks/hello/dev.json"));
    let checkpoint = checkpoint.unwrap_or_default();
    (runs, checkpoint.contains("pulumi:index:Stash"))
}

async fn hello_example_survives_new_pod_and_is_destroyed() {
    run_concurrently(async |env| {
        let volume = new_volume(env, "hello");
        env.provision(CLAIM, &volume).await;
        let manifest = hello_manifest(env);
        let manifest = manifest.to_str().unwrap();
        kubectl(env, &["apply", "-f", manifest]);
        let stack = env.wait_for_ready("hello").await;
        let outputs = json!(stack.status.unwrap().outputs);
        let expected =
            json!({ "greeting": "hello, Kubernetes", "password": "[secret]", "stack": "dev" });
        assert_eq!(outputs, expected);
        assert_eq!(backend_history(&volume), (1, true));
        assert_eq!(fs::metadata(&volume).unwrap().gid(), GROUP);

        let uid = env.pod_uid("hello").await;
        env.delete_pod("hello").await;
        env.request_run("hello", "in another pod").await;
        env.wait_for_ready("hello").await;
        assert_ne!(env.pod_uid("hello").await, uid);
        assert_eq!(
            backend_history(&volume),
            (2, true),
            "the state was found again"
        );

        kubectl(env, &["delete", "--wait=false", "-f", manifest]);
        env.wait_for_deletion("hello").await;
        assert_eq!(backend_history(&volume), (3, false), "it was destroyed");
        let reasons = last_reasons(env).await;
        assert!(
            reasons.contains(&"StackDestroyed".to_owned()),
            "{reasons:?}"
        );
    })
    .await;
}

/// The reasons of the events about Stacks.
async fn last_reasons(env: &TestEnv<'_>) -> Vec<String> {
    env.wait_until("the event of the destroy", async || {
        let events = env.namespace.api::<Event>();
        let events = events.list(&ListParams::default()).await;
        let events = events.map_err(|error| error.to_string())?.items.into_iter();
        let about_stacks =
            events.filter(|event| event.involved_object.kind.as_deref() == Some("Stack"));
        let reasons: Vec<String> = about_stacks.filter_map(|event| event.reason).collect();
        if reasons.iter().any(|reason| reason == "StackDestroyed") {
            Ok(reasons)
        } else {
            Err(text(&reasons))
        }
    })
    .await
}

#[tokio::test]
async fn readme_manifest_becomes_ready() {
    run_concurrently(async |env| {
        env.provision(CLAIM, &new_volume(env, "readme")).await;
        let readme = fs::read_to_string(root().join("README.md")).unwrap();
        let (_, block) = readme.split_once("```yaml\n").unwrap();
        let (manifest, _) = block.split_once("```\n").unwrap();
        let file = env.state_folder().join("readme.yaml");
        fs::write(&file, manifest).unwrap();
        kubectl(env, &["apply", "-f", file.to_str().unwrap()]);
        let stack = env.wait_for_ready("hello").await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        assert_eq!(outputs["greeting"], json!("hello from dev"));
    })
    .await;
}

/// Waits until the Stack reports the missing volume at `/state`, and how to mount one.
async fn wait_for_volume_hint(env: &TestEnv<'_>) {
    for part in ["/state", "volume", "fsGroup", "examples/hello/stack.yaml"] {
        env.wait_for_stack_condition("demo", "Stalled", "WorkspaceFailed", part)
            .await;
    }
}

async fn missing_state_volume_is_reported() {
    run_concurrently(async |env| {
        env.create(program("demo", &["one"]).build()).await;
        let without_volume = json!({ "image": workspace_image() });
        let stack = program_stack("demo").set("/spec/workspaceTemplate/spec", without_volume);
        env.create(stack.build()).await;
        wait_for_volume_hint(env).await;
    })
    .await;
}

async fn unwritable_state_volume_is_reported() {
    run_concurrently(async |env| {
        env.claim("locked", &new_volume(env, "locked")).await;
        env.create(program("demo", &["one"]).build()).await;
        let mut template = workspace(workspace_image());
        template["podTemplate"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] =
            json!("locked");
        let stack = program_stack("demo").set("/spec/workspaceTemplate/spec", template);
        env.create(stack.build()).await;
        wait_for_volume_hint(env).await;
    })
    .await;
}
