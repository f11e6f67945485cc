//! The scenarios of upstream's own e2e suite, except sources.

use pko_api::{Stack, Update, Workspace};
use pko_testkit::{ProgramBuilder, WorkspaceBuilder};
use serde_json::{Value, json};

use crate::{
    cli::on_each_cli,
    operator_cluster::{OLD_WORKSPACE_IMAGE, SHELL_IMAGE, workspace_image},
    stacks::{BACKEND, program, program_stack, workspace},
    test_env::{CREDENTIALS, run_concurrently},
};

on_each_cli! {
    targeted_run_changes_only_the_target
    update_runs_in_workspace_without_stack
    config_of_each_type_reaches_program
}

/// Upstream's `targets`.
async fn targeted_run_changes_only_the_target() {
    run_concurrently(async |env| {
        env.create(program("demo", &["one", "two"]).build()).await;
        let target = "urn:pulumi:dev::demo::pulumi:index:Stash::one";
        let stack = program_stack("demo").set("/spec/targets", json!([target]));
        env.create(stack.build()).await;
        let stack = env.wait_for_ready("demo").await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        assert_eq!(outputs.get("one"), Some(&json!("kept by one")));
        assert_eq!(outputs.get("two"), None);
    })
    .await;
}

/// A Workspace without a Stack, which is ready soon.
fn bare_workspace(image: &str) -> Value {
    let (secret, key) = CREDENTIALS;
    let passphrase = json!({ "secretKeyRef": { "name": secret, "key": key } });
    WorkspaceBuilder::new("demo")
        .set("/spec", workspace(image))
        .set(
            "/spec/projectInfo",
            json!({ "name": "demo", "runtime": "yaml" }),
        )
        .push(
            "/spec/env",
            json!({ "name": "PULUMI_BACKEND_URL", "value": BACKEND }),
        )
        .push(
            "/spec/env",
            json!({ "name": "PULUMI_CONFIG_PASSPHRASE", "valueFrom": passphrase }),
        )
        .push("/spec/stacks", json!({ "name": "dev", "create": true }))
        .build()
}

/// Upstream's `issue-801`.
#[tokio::test]
async fn workspace_with_missing_image_recovers_when_corrected() {
    run_concurrently(async |env| {
        env.create(bare_workspace("docker.io/local/nobody:1")).await;
        for part in ["container \"pulumi\": ", "docker.io/local/nobody:1"] {
            env.wait_for_workspace_ready("demo", "False", "WaitingForReplicas", part)
                .await;
        }
        let correct = json!({ "spec": { "image": workspace_image() } });
        env.patch::<Workspace>("demo", correct).await;
        env.wait_for_workspace_ready("demo", "True", "Succeeded", "")
            .await;
    })
    .await;
}

/// Upstream reports only that it waits for the workspace.
#[tokio::test]
async fn stack_with_missing_image_reports_it() {
    run_concurrently(async |env| {
        env.create(program("demo", &["one"]).build()).await;
        let image = "docker.io/local/nobody:1";
        let stack = program_stack("demo").set("/spec/workspaceTemplate/spec/image", image);
        env.create(stack.build()).await;
        for part in ["container \"pulumi\": ", image] {
            env.wait_for_stack_condition("demo", "Reconciling", "StackProcessing", part)
                .await;
        }
        let correct =
            json!({ "spec": { "workspaceTemplate": { "spec": { "image": workspace_image() } } } });
        env.patch::<Stack>("demo", correct).await;
        env.wait_for_ready("demo").await;
    })
    .await;
}

/// Upstream's `random-yaml-auth-error`: a service account without rights was its failure, and is
/// enough for ours.
#[tokio::test]
async fn service_account_without_permissions_suffices() {
    run_concurrently(async |env| {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "nobody" },
            "automountServiceAccountToken": false,
        });
        env.create(account).await;
        env.create(program("demo", &["one"]).build()).await;
        let stack = program_stack("demo").set("/spec/serviceAccountName", "nobody");
        env.create(stack.build()).await;
        env.wait_for_ready("demo").await;
        let spec = env.pod("demo").await.unwrap().spec.unwrap();
        assert_eq!(spec.service_account_name.as_deref(), Some("nobody"));
    })
    .await;
}

/// Upstream's `issue-937`.
#[tokio::test]
async fn env_file_of_init_container_reaches_run() {
    run_concurrently(async |env| {
        env.create(program("demo", &["one"]).build()).await;
        let script = "echo PULUMI_CONFIG_PASSPHRASE=from-the-file >> \"$PULUMI_ENV\"";
        let writer = json!([{
            "name": "write-env", "image": SHELL_IMAGE, "command": ["/bin/sh", "-c", script],
        }]);
        let stack = program_stack("demo").set("/spec/envRefs", json!({})).set(
            "/spec/workspaceTemplate/spec/podTemplate/spec/initContainers",
            writer,
        );
        env.create(stack.build()).await;
        env.wait_for_ready("demo").await;
    })
    .await;
}

/// Upstream's `structured-config`.
async fn config_of_each_type_reaches_program() {
    run_concurrently(async |env| {
        let values = [
            ("text", "string", json!("a b")),
            ("number", "integer", json!(42)),
            ("flag", "boolean", json!(true)),
            ("list", "array", json!([1, 2])),
            ("object", "object", json!({ "deep": [1, { "er": "yes" }] })),
        ];
        let mut program = ProgramBuilder::new("demo");
        let mut stack = program_stack("demo");
        let mut data = serde_json::Map::new();
        for (key, kind, value) in &values {
            let mut declared = json!({ "type": kind });
            if *kind == "array" {
                declared["items"] = json!({ "type": "integer" });
            }
            for name in [format!("inline_{key}"), format!("referred_{key}")] {
                program = program
                    .set(&format!("/program/config/{name}"), declared.clone())
                    .output(&name, format!("${{{name}}}"));
            }
            stack = stack
                .set(&format!("/spec/config/inline_{key}"), value.clone())
                .set(
                    &format!("/spec/configRef/referred_{key}"),
                    json!({ "name": "values", "key": key, "json": *kind != "string" }),
                );
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            data.insert((*key).to_owned(), text.into());
        }
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "values" }, "data": data,
        });
        env.create(map).await;
        env.create(program.build()).await;
        env.create(stack.build()).await;
        let stack = env.wait_for_ready("demo").await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        for (key, _, value) in &values {
            for name in [format!("inline_{key}"), format!("referred_{key}")] {
                assert_eq!(outputs.get(&name), Some(value), "{name}");
            }
        }
    })
    .await;
}

/// Upstream's `structured-config-version`.
#[tokio::test]
async fn old_cli_with_structured_config_stalls_until_upgraded() {
    run_concurrently(async |env| {
        let program = ProgramBuilder::new("demo")
            .set("/program/config/size", json!({ "type": "integer" }))
            .output("size", "${size}");
        env.create(program.build()).await;
        let stack = program_stack("demo")
            .config("size", 3)
            .set("/spec/workspaceTemplate/spec/image", OLD_WORKSPACE_IMAGE);
        env.create(stack.build()).await;
        let reason = "PulumiVersionTooLow";
        env.wait_for_stack_condition("demo", "Stalled", reason, "IncompatibleConfiguration")
            .await;
        env.wait_for_stack_condition("demo", "Stalled", reason, "3.197.0")
            .await;
        let newer =
            json!({ "spec": { "workspaceTemplate": { "spec": { "image": workspace_image() } } } });
        env.patch::<Stack>("demo", newer).await;
        let stack = env.wait_for_ready("demo").await;
        assert_eq!(stack.status.unwrap().outputs.unwrap()["size"], json!(3));
    })
    .await;
}

/// Upstream's test of finalizers: applying without a finalizer removes only the applier's own.
#[tokio::test]
async fn finalizers_of_other_managers_are_kept() {
    run_concurrently(async |env| {
        env.create_simple("demo").await;
        env.wait_for_ready("demo").await;
        let stack: Stack = env.get("demo").await.unwrap();
        let ours = stack.metadata.finalizers.clone().unwrap_or_default();
        let foreign = "example.test/hold";
        let apply = |manager: &str, finalizers: Value| {
            let object = json!({
                "apiVersion": "pulumi.com/v1", "kind": "Stack",
                "metadata": { "name": "demo", "namespace": env.name(), "finalizers": finalizers },
            });
            let file = env
                .operator
                .cluster
                .folder()
                .join(format!("{}.json", env.name()));
            std::fs::write(&file, object.to_string()).unwrap();
            let manager = format!("--field-manager={manager}");
            let file = file.to_str().unwrap().to_owned();
            env.operator
                .kubectl(&["apply", "--server-side", &manager, "-f", &file]);
        };
        apply("somebody", json!([foreign]));
        let stack: Stack = env.get("demo").await.unwrap();
        let all = stack.metadata.finalizers.unwrap();
        assert!(
            ours.iter().all(|one| all.contains(one)) && all.contains(&foreign.to_owned()),
            "{all:?}"
        );
        apply("somebody", json!([]));
        let stack: Stack = env.get("demo").await.unwrap();
        assert_eq!(stack.metadata.finalizers.unwrap_or_default(), ours);
    })
    .await;
}

/// A Workspace and an Update by themselves, as people use them who need no Stack.
async fn update_runs_in_workspace_without_stack() {
    run_concurrently(async |env| {
        env.create(bare_workspace(workspace_image())).await;
        let update = pko_testkit::UpdateBuilder::new("first", "demo", "dev", "up");
        env.create(update.build()).await;
        env.wait_until("the Update to be complete", async || {
            let update: Update = env.get("first").await?;
            let status = update.status.unwrap_or_default();
            crate::stacks::check_condition(Some(&status.conditions), "Complete", "True", "", "")?;
            crate::stacks::check_condition(Some(&status.conditions), "Failed", "False", "", "")
        })
        .await;
    })
    .await;
}
