//! Updates written by hand, from creation to completion.

use std::fs;

use k8s_openapi::api::core::v1::{Event, Secret};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use pko_api::{Update, auto::v1alpha1::UpdateStatus};
use pko_testkit::{
    Reply, Script, StandIn, TestNamespace, UpdateBuilder, WorkspaceBuilder, eventually,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::System;

const PROGRAM: &str = "\
name: hello
runtime: yaml
resources:
  first:
    type: pulumi:index:Stash
    properties:
      input: v1
outputs:
  size: 4
  hidden: {fn::secret: s3cr3t-value}
";

/// A Workspace, whose `pulumi` follows a script.
struct UpdateStage {
    system: System,
    namespace: TestNamespace,
    stand_in: StandIn,
}

impl UpdateStage {
    async fn with(script: &Script) -> Self {
        Self::running(PROGRAM, script).await
    }

    async fn running(source_text: &str, script: &Script) -> Self {
        let program = StandIn::program().display().to_string();
        let system = System::start(&[("PKO_PULUMI", &program)]).await;
        let stand_in = system.stand_in(script);
        let source = stand_in.folder().join("source");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("Pulumi.yaml"), source_text).unwrap();
        let namespace = system.namespace().await;
        let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
        let workspace = WorkspaceBuilder::new("ws")
            .local(source.to_str().unwrap())
            .set("/spec/stacks", json!([{ "name": "dev", "create": true }]))
            .push(
                "/spec/env",
                variable("PULUMI_BACKEND_URL", &system.backend()),
            )
            .push(
                "/spec/env",
                variable("PULUMI_CONFIG_PASSPHRASE", "correct-horse"),
            )
            .push(
                "/spec/env",
                variable("PKO_STAND_IN", stand_in.folder().to_str().unwrap()),
            );
        namespace.create_object(workspace.build()).await.unwrap();
        Self {
            system,
            namespace,
            stand_in,
        }
    }

    /// Writes an Update by hand.
    async fn create(
        &self,
        name: &str,
        operation: &str,
        more: impl FnOnce(UpdateBuilder) -> UpdateBuilder,
    ) {
        let update = more(UpdateBuilder::new(name, "ws", "dev", operation));
        self.namespace.create_object(update.build()).await.unwrap();
    }

    async fn update(&self, name: &str) -> Update {
        self.namespace.api::<Update>().get(name).await.unwrap()
    }

    /// Waits for the end of an Update: its conditions, as status and reason, and its status.
    async fn ended(&self, name: &str) -> (Vec<String>, UpdateStatus) {
        let ended = eventually(format!("{name} to end"), async || {
            let status = self.update(name).await.status.unwrap_or_default();
            let shown: Vec<String> = status
                .conditions
                .iter()
                .map(|condition| {
                    format!(
                        "{}={}/{}",
                        condition.type_, condition.status, condition.reason
                    )
                })
                .collect();
            let is_over = shown.iter().any(|shown| shown.starts_with("Complete=True"));
            if is_over {
                Ok((shown, status))
            } else {
                Err(format!("{:#?}", status.conditions))
            }
        });
        ended.await.unwrap()
    }

    /// Waits until so many runs of a command have begun.
    async fn wait_for_runs(&self, command: &str, count: usize) {
        eventually(format!("{command} to run"), async || {
            let runs = self.stand_in.count(command);
            if runs == count { Ok(()) } else { Err(runs) }
        })
        .await
        .unwrap();
    }

    /// Waits until a run has been interrupted, and returns how often.
    async fn interrupted(&self) -> Vec<i32> {
        eventually("the run to be interrupted", async || {
            let calls = self.stand_in.calls();
            let up = calls.into_iter().find(|call| call.is("up")).unwrap();
            if up.signals.is_empty() || up.ended.is_none() {
                return Err(format!("{up:?}"));
            }
            Ok(up.signals)
        })
        .await
        .unwrap()
    }

    /// Waits for the one event about an Update: type, reason and text.
    async fn wait_for_message(&self, name: &str, expected: &str) {
        eventually("the user to be told", async || {
            let events = self.namespace.api::<Event>();
            let events = events.list(&ListParams::default()).await.unwrap();
            let about = events.items.into_iter().filter(|event| {
                event.involved_object.kind.as_deref() == Some("Update")
                    && event.involved_object.name.as_deref() == Some(name)
            });
            let told = about.map(|event| {
                let parts = [event.type_, event.reason, event.message];
                parts.map(Option::unwrap_or_default).join(" ")
            });
            let told: Vec<String> = told.collect();
            if told == [expected] {
                Ok(())
            } else {
                Err(format!("{told:?}"))
            }
        })
        .await
        .unwrap();
    }
}

const SUCCEEDED: [&str; 3] = [
    "Progressing=False/Complete",
    "Failed=False/UpdateSucceeded",
    "Complete=True/Updated",
];
const CANCELED: [&str; 3] = [
    "Progressing=False/Complete",
    "Failed=True/Canceled",
    "Complete=True/Updated",
];
const INTERRUPT: [i32; 1] = [Signal::INT.as_raw()];

fn as_usual(builder: UpdateBuilder) -> UpdateBuilder {
    builder
}

fn gated() -> Script {
    Script::new().on("up", Reply::new().waits_for("gate").run_default())
}

#[tokio::test]
async fn manual_update_is_adopted_and_runs() {
    let stage = UpdateStage::with(&Script::new()).await;
    stage.create("up", "up", as_usual).await;
    let (conditions, status) = stage.ended("up").await;
    assert_eq!(conditions, SUCCEEDED);
    let owners = stage.update("up").await.owner_references().to_vec();
    assert_eq!((owners[0].kind.as_str(), owners.len()), ("Workspace", 1));
    assert_eq!(status.project_info.unwrap().name, "hello");
    assert_eq!(status.resource_changes["create"], 2);
    assert_eq!(status.workspace_instance, Some(owners[0].uid.clone()));
    let secret = stage
        .namespace
        .api::<Secret>()
        .get("up-stack-outputs")
        .await;
    let secret = secret.unwrap();
    assert_eq!(status.outputs, secret.metadata.name);
    assert_eq!(secret.data.unwrap()["hidden"].0, b"\"s3cr3t-value\"");
    stage
        .wait_for_message("up", "Normal UpdateSucceeded Updated stack \"dev\"")
        .await;
}

#[tokio::test]
async fn manual_update_unknown_operation_is_reported() {
    let stage = UpdateStage::with(&Script::new()).await;
    stage.create("odd", "import", as_usual).await;
    let (conditions, status) = stage.ended("odd").await;
    assert_eq!(conditions[1], "Failed=True/UpdateFailed");
    let message = "spec.type: \"import\" is not supported; use preview, up, refresh or destroy";
    assert_eq!(status.message.as_deref(), Some(message));
    assert_eq!(status.failure_class.as_deref(), Some("configuration"));
}

#[tokio::test]
async fn manual_update_preview_is_in_the_status() {
    let stage = UpdateStage::with(&Script::new()).await;
    stage.create("plan", "preview", as_usual).await;
    let (conditions, status) = stage.ended("plan").await;
    assert_eq!(conditions, SUCCEEDED);
    let planned = json!({ "size": 4, "hidden": "[secret]" });
    assert_eq!(json!(status.planned_outputs), planned);
    assert_eq!(status.resource_changes["create"], 2);
    let printed = status.output.clone().unwrap();
    assert!(printed.contains("Previewing update (dev)"), "{printed}");
    assert!(
        !serde_json::to_string(&status)
            .unwrap()
            .contains("s3cr3t-value")
    );
    assert_eq!(status.outputs, None);
    assert!(status.start_time.is_some() && status.end_time.is_some());
}

#[tokio::test]
async fn manual_update_failure_has_details() {
    let fails = Reply::new()
        .prints("View Live: https://example.com/updates/7\n")
        .prints_error("error: it broke\n")
        .exits(255);
    let stage = UpdateStage::with(&Script::new().on("up", fails)).await;
    stage.create("bad", "up", as_usual).await;
    let (conditions, status) = stage.ended("bad").await;
    assert_eq!(conditions[1], "Failed=True/UpdateFailed");
    let message = status.message.unwrap();
    assert!(message.contains("error: it broke"), "{message}");
    assert_eq!(
        status.permalink.as_deref(),
        Some("https://example.com/updates/7")
    );
    assert!(status.start_time.is_some() && status.end_time.is_some());
    assert_eq!(status.project_info.unwrap().name, "hello");
    stage
        .wait_for_message("bad", "Warning UpdateFailed Failed to update stack \"dev\"")
        .await;
}

#[tokio::test]
async fn update_cancel_annotation_stops_or_prevents_a_run() {
    let stage = UpdateStage::with(&gated()).await;
    stage.create("running", "up", as_usual).await;
    stage.wait_for_runs("up", 1).await;
    let cancel = Patch::Merge(
        json!({ "metadata": { "annotations": { "auto.pulumi.com/cancel": "true" } } }),
    );
    let updates = stage.namespace.api::<Update>();
    let patched = updates
        .patch("running", &PatchParams::default(), &cancel)
        .await;
    patched.unwrap();
    let (conditions, status) = stage.ended("running").await;
    assert_eq!(conditions, CANCELED);
    let message = status.message.unwrap();
    let cause = "canceled: it has the annotation auto.pulumi.com/cancel\n";
    assert!(message.starts_with(cause), "{message}");
    assert_eq!(status.failure_class.as_deref(), Some("canceled"));
    assert_eq!(stage.interrupted().await, INTERRUPT, "gently");

    let annotated = |builder: UpdateBuilder| builder.annotation("auto.pulumi.com/cancel", "true");
    stage.create("never", "up", annotated).await;
    let (conditions, _) = stage.ended("never").await;
    assert_eq!(conditions[1], "Failed=True/Canceled");
    assert_eq!(stage.stand_in.count("up"), 1);
}

#[tokio::test]
async fn update_deletion_cancels_its_run_without_a_manager() {
    let mut stage = UpdateStage::with(&gated()).await;
    let updates = stage.namespace.api::<Update>();
    stage.create("gone", "up", as_usual).await;
    stage.wait_for_runs("up", 1).await;
    updates
        .delete("gone", &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(stage.interrupted().await, INTERRUPT, "gently");

    stage.create("unseen", "up", as_usual).await;
    stage.wait_for_runs("up", 2).await;
    stage.system.kill_manager();
    updates
        .delete("unseen", &DeleteParams::default())
        .await
        .unwrap();
    stage.system.start_manager();
    eventually("the second run to be interrupted", async || {
        let calls = stage.stand_in.calls().into_iter();
        let signals: Vec<Vec<i32>> = calls
            .filter(|call| call.is("up"))
            .map(|call| call.signals)
            .collect();
        if signals == [INTERRUPT, INTERRUPT] {
            Ok(())
        } else {
            Err(format!("{signals:?}"))
        }
    })
    .await
    .unwrap();

    // The stack is free for the next one.
    stage.stand_in.create("gate");
    stage.create("next", "up", as_usual).await;
    assert_eq!(stage.ended("next").await.0, SUCCEEDED);
}

#[tokio::test]
async fn update_run_timeout_is_enforced_and_reported() {
    let stage = UpdateStage::with(&gated()).await;
    let limited = |builder: UpdateBuilder| builder.set("/spec/timeoutSeconds", 1);
    stage.create("long", "up", limited).await;
    let (conditions, status) = stage.ended("long").await;
    assert_eq!(conditions, CANCELED);
    let message = status.message.unwrap();
    assert!(
        message.contains("the run took longer than its time limit"),
        "{message}"
    );
    assert_eq!(stage.interrupted().await, INTERRUPT, "gently");
}

#[tokio::test]
async fn outputs_secret_of_another_owner_is_kept() {
    let stage = UpdateStage::with(&gated()).await;
    let others: Value = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "up-stack-outputs" },
        "stringData": { "mine": "yes" },
    });
    stage.namespace.create_object(others).await.unwrap();
    stage.create("up", "up", as_usual).await;
    stage.wait_for_runs("up", 1).await;
    stage.stand_in.create("gate");
    let (conditions, status) = stage.ended("up").await;
    assert_eq!(conditions, SUCCEEDED);
    let uid = stage.update("up").await.uid().unwrap();
    let name = format!("up-stack-outputs-{}", &uid[..8]);
    assert_eq!(status.outputs.as_ref(), Some(&name));
    let secrets = stage.namespace.api::<Secret>();
    assert_eq!(
        secrets.get(&name).await.unwrap().data.unwrap()["size"].0,
        b"4"
    );
    let others = secrets.get("up-stack-outputs").await.unwrap();
    assert_eq!(others.data.unwrap()["mine"].0, b"yes");
}

#[tokio::test]
async fn outputs_rejected_do_not_fail_the_update() {
    // No key of a Secret is that long.
    let program = format!("{PROGRAM}  {}: 1\n", "long".repeat(100));
    let stage = UpdateStage::running(&program, &Script::new()).await;
    stage.create("up", "up", as_usual).await;
    let (conditions, status) = stage.ended("up").await;
    assert_eq!(conditions, SUCCEEDED);
    assert_eq!(status.outputs, None);
    let message = status.message.unwrap();
    assert!(
        message.starts_with("the outputs are not stored: "),
        "{message}"
    );
    assert!(message.contains("no more than 253 characters"), "{message}");
    assert!(!message.contains("s3cr3t-value"));
}
