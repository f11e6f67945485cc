//! What upstream's own e2e suite tries, beside sources.

use pko_api::{Stack, Update, Workspace};
use pko_testkit::{ProgramBuilder, WorkspaceBuilder};
use serde_json::{Value, json};

use crate::{
    cli::on_each_cli,
    place::{CREDENTIALS, beside_others},
    stacks::{BACKEND, program, program_stack, workspace},
    system::{OLD_WORKSPACE_IMAGE, SHELL_IMAGE, workspace_image},
};

on_each_cli! {
    a_run_of_one_target_touches_nothing_else
    an_update_runs_in_a_workspace_without_a_stack
    config_of_each_type_reaches_the_program_as_it_was_written
}

/// Upstream's `targets`.
async fn a_run_of_one_target_touches_nothing_else() {
    beside_others(async |place| {
        place.create(program("demo", &["one", "two"]).build()).await;
        let target = "urn:pulumi:dev::demo::pulumi:index:Stash::one";
        let stack = program_stack("demo").set("/spec/targets", json!([target]));
        place.create(stack.build()).await;
        let stack = place.ready("demo").await;
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
async fn an_image_that_does_not_exist_is_named_and_a_correction_helps_at_once() {
    beside_others(async |place| {
        place
            .create(bare_workspace("docker.io/local/nobody:1"))
            .await;
        for part in ["container \"pulumi\": ", "docker.io/local/nobody:1"] {
            place
                .workspace_is("demo", "False", "WaitingForReplicas", part)
                .await;
        }
        let correct = json!({ "spec": { "image": workspace_image() } });
        place.patch::<Workspace>("demo", correct).await;
        place.workspace_is("demo", "True", "Succeeded", "").await;
    })
    .await;
}

/// Upstream reports only that it waits for the workspace.
#[tokio::test]
async fn stack_reports_an_image_that_does_not_exist() {
    beside_others(async |place| {
        place.create(program("demo", &["one"]).build()).await;
        let image = "docker.io/local/nobody:1";
        let stack = program_stack("demo").set("/spec/workspaceTemplate/spec/image", image);
        place.create(stack.build()).await;
        for part in ["container \"pulumi\": ", image] {
            place
                .stack_is("demo", "Reconciling", "StackProcessing", part)
                .await;
        }
        let correct =
            json!({ "spec": { "workspaceTemplate": { "spec": { "image": workspace_image() } } } });
        place.patch::<Stack>("demo", correct).await;
        place.ready("demo").await;
    })
    .await;
}

/// Upstream's `random-yaml-auth-error`: a service account without rights was its failure, and is enough for ours.
#[tokio::test]
async fn a_service_account_without_any_right_is_enough() {
    beside_others(async |place| {
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "nobody" },
            "automountServiceAccountToken": false,
        });
        place.create(account).await;
        place.create(program("demo", &["one"]).build()).await;
        let stack = program_stack("demo").set("/spec/serviceAccountName", "nobody");
        place.create(stack.build()).await;
        place.ready("demo").await;
        let spec = place.pod("demo").await.unwrap().spec.unwrap();
        assert_eq!(spec.service_account_name.as_deref(), Some("nobody"));
    })
    .await;
}

/// Upstream's `issue-937`.
#[tokio::test]
async fn what_an_init_container_writes_to_the_env_file_is_in_the_runs_environment() {
    beside_others(async |place| {
        place.create(program("demo", &["one"]).build()).await;
        let script = "echo PULUMI_CONFIG_PASSPHRASE=from-the-file >> \"$PULUMI_ENV\"";
        let writer = json!([{
            "name": "write-env", "image": SHELL_IMAGE, "command": ["/bin/sh", "-c", script],
        }]);
        let stack = program_stack("demo").set("/spec/envRefs", json!({})).set(
            "/spec/workspaceTemplate/spec/podTemplate/spec/initContainers",
            writer,
        );
        place.create(stack.build()).await;
        place.ready("demo").await;
    })
    .await;
}

/// Upstream's `structured-config`.
async fn config_of_each_type_reaches_the_program_as_it_was_written() {
    beside_others(async |place| {
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
        place.create(map).await;
        place.create(program.build()).await;
        place.create(stack.build()).await;
        let stack = place.ready("demo").await;
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
async fn a_cli_that_is_too_old_for_structured_config_is_named_and_a_newer_image_helps() {
    beside_others(async |place| {
        let program = ProgramBuilder::new("demo")
            .set("/program/config/size", json!({ "type": "integer" }))
            .output("size", "${size}");
        place.create(program.build()).await;
        let stack = program_stack("demo")
            .config("size", 3)
            .set("/spec/workspaceTemplate/spec/image", OLD_WORKSPACE_IMAGE);
        place.create(stack.build()).await;
        let reason = "PulumiVersionTooLow";
        place
            .stack_is("demo", "Stalled", reason, "IncompatibleConfiguration")
            .await;
        place.stack_is("demo", "Stalled", reason, "3.197.0").await;
        let newer =
            json!({ "spec": { "workspaceTemplate": { "spec": { "image": workspace_image() } } } });
        place.patch::<Stack>("demo", newer).await;
        let stack = place.ready("demo").await;
        assert_eq!(stack.status.unwrap().outputs.unwrap()["size"], json!(3));
    })
    .await;
}

/// Upstream's test of finalizers: whoever applies without ours takes away ours alone.
#[tokio::test]
async fn finalizers_belong_to_those_who_applied_them() {
    beside_others(async |place| {
        place.create_simple("demo").await;
        place.ready("demo").await;
        let stack: Stack = place.get("demo").await.unwrap();
        let ours = stack.metadata.finalizers.clone().unwrap_or_default();
        let foreign = "example.test/hold";
        let apply = |manager: &str, finalizers: Value| {
            let object = json!({
                "apiVersion": "pulumi.com/v1", "kind": "Stack",
                "metadata": { "name": "demo", "namespace": place.name(), "finalizers": finalizers },
            });
            let file = place
                .system
                .cluster
                .folder()
                .join(format!("{}.json", place.name()));
            std::fs::write(&file, object.to_string()).unwrap();
            let manager = format!("--field-manager={manager}");
            let file = file.to_str().unwrap().to_owned();
            place
                .system
                .kubectl(&["apply", "--server-side", &manager, "-f", &file]);
        };
        apply("somebody", json!([foreign]));
        let stack: Stack = place.get("demo").await.unwrap();
        let all = stack.metadata.finalizers.unwrap();
        assert!(
            ours.iter().all(|one| all.contains(one)) && all.contains(&foreign.to_owned()),
            "{all:?}"
        );
        apply("somebody", json!([]));
        let stack: Stack = place.get("demo").await.unwrap();
        assert_eq!(stack.metadata.finalizers.unwrap_or_default(), ours);
    })
    .await;
}

/// A Workspace and an Update by themselves, as people use them who need no Stack.
async fn an_update_runs_in_a_workspace_without_a_stack() {
    beside_others(async |place| {
        place.create(bare_workspace(workspace_image())).await;
        let update = pko_testkit::UpdateBuilder::new("first", "demo", "dev", "up");
        place.create(update.build()).await;
        place
            .until("the Update to be complete", async || {
                let update: Update = place.get("first").await?;
                let status = update.status.unwrap_or_default();
                crate::stacks::holds(Some(&status.conditions), "Complete", "True", "", "")?;
                crate::stacks::holds(Some(&status.conditions), "Failed", "False", "", "")
            })
            .await;
    })
    .await;
}
