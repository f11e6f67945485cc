//! The life of one Stack, as its user sees it.

use kube::api::{DeleteParams, Patch, PatchParams};
use pko_api::{Program, Stack, Update};
use pko_testkit::{ProgramBuilder, StackBuilder, TestNamespace, eventually};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::{System, Watched, with_namespace},
    scripted_stacks::{patch_stack, publish},
};

const WAITING: &str = "Reconciling StackProcessing: waiting for workspace readiness";
const PROCESSING: &str = "Reconciling StackProcessing: stack is being processed";
const READY: &str = "Ready ProcessingCompleted: the stack has been processed and is up to date";

async fn secret(namespace: &TestNamespace) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "credentials" },
        "stringData": { "passphrase": "correct-horse", "token": "hunter2" },
    });
    namespace.create_object(secret).await.unwrap();
}

async fn published_program(namespace: &TestNamespace) {
    let program = ProgramBuilder::new("demo")
        .set(
            "/program/config",
            json!({ "size": { "type": "integer" }, "token": { "type": "string", "secret": true } }),
        )
        .resource("one", "pulumi:index:Stash", &json!({ "input": "v${size}" }))
        .output("one", "${one.output}")
        .output("size", "${size}")
        .output("token", "${token}")
        .build();
    publish(namespace, program).await;
}

fn stack(system: &System) -> Value {
    StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .config("size", 1)
        .set("/spec/secretsRef", json!({ "token": { "type": "Secret", "secret": { "name": "credentials", "key": "token" } } }))
        .destroy_on_finalize(true)
        .build()
}

async fn patch_program(namespace: &TestNamespace, program: Value) {
    let programs = namespace.api::<Program>();
    let patch = json!({ "program": program });
    programs
        .patch("demo", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn outputs(trail: &Trail) -> Value {
    json!(trail.stack().await.status.unwrap().outputs.unwrap())
}

#[tokio::test]
async fn stack_lifecycle_from_create_to_delete() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        secret(namespace).await;
        published_program(namespace).await;
        let trail = Trail::of(namespace, "demo");

        // Created.
        namespace.create_object(stack(&system)).await.unwrap();
        assert_eq!(trail.until("Ready").await, [WAITING, PROCESSING, READY]);
        assert_eq!(outputs(&trail).await, json!({ "one": "v1", "size": 1, "token": "[secret]" }));
        assert_eq!(system.executed("demo", "dev"), 1);

        // The Program is edited.
        patch_program(namespace, json!({ "outputs": { "two": "${one.output}-2" } })).await;
        assert_eq!(trail.until("Ready").await, [WAITING, PROCESSING, READY]);
        assert_eq!(outputs(&trail).await, json!({ "one": "v1", "size": 1, "token": "[secret]", "two": "v1-2" }));

        // The config is changed.
        patch_stack(namespace, "demo", json!({ "spec": { "config": { "size": 2 } } })).await;
        assert_eq!(trail.until("Ready").await, [WAITING, PROCESSING, READY]);
        assert_eq!(outputs(&trail).await["size"], 2);

        // A run is requested without a change, so there is nothing to wait for.
        patch_stack(namespace, "demo", json!({ "metadata": { "annotations": { "pulumi.com/reconciliation-request": "again" } } })).await;
        assert_eq!(trail.until("Ready").await, [PROCESSING, READY]);
        let status = trail.stack().await.status.unwrap();
        assert_eq!(status.observed_reconcile_request.as_deref(), Some("again"));
        assert_eq!(system.executed("demo", "dev"), 4);

        // The Program is broken, then mended.
        patch_program(namespace, json!({ "outputs": { "two": "${nobody.output}" } })).await;
        let seen = trail.until("Reconciling RetryingAfterFailure").await;
        let message = trail.stack().await.status.unwrap().last_update.unwrap().message.unwrap();
        assert!(message.contains("nobody"), "{message}");
        assert_eq!(seen[..2], [WAITING, PROCESSING]);
        assert!(seen[2].starts_with("Reconciling RetryingAfterFailure: 0 update failure(s); next attempt at 20"), "{seen:?}");
        assert!(seen[2].contains("nobody"), "the condition says why: {seen:?}");
        patch_program(namespace, json!({ "outputs": { "two": "mended" } })).await;
        assert_eq!(trail.until("Ready").await, [WAITING, PROCESSING, READY]);
        assert_eq!(outputs(&trail).await["two"], "mended");

        // Deleted, with a destroy first.
        let before = system.executed("demo", "dev");
        namespace.api::<Stack>().delete("demo", &DeleteParams::default()).await.unwrap();
        assert_eq!(trail.until_gone().await, [PROCESSING, READY]);
        assert_eq!(system.executed("demo", "dev"), before + 1);

        let failed = format!("Warning StackUpdateFailure: Failed to update stack: {message}");
        // Events follow the status that they report.
        let expected = [
                "Normal StackUpdateDetected: Initial stack update",
                "Normal StackUpdateDetected: New commit detected: \"2\"",
                "Normal StackUpdateDetected: New stack generation: 2",
                "Normal StackUpdateDetected: Sync request: \"again\"",
                "Normal StackUpdateDetected: New commit detected: \"3\"",
                &failed,
                "Normal StackUpdateDetected: New commit detected: \"4\"",
                "Normal StackCreated: Successfully updated stack (5 times)",
                "Normal StackUpdateDetected: Stack marked for deletion",
                "Normal StackDestroyed: Successfully destroyed stack",
        ];
        let told = eventually("the events", async || {
            let events = trail.events().await;
            if events == expected { Ok(()) } else { Err(format!("{events:#?}")) }
        });
        told.await.unwrap();
        system.no_workspace_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn invalid_stack_is_reported_and_affects_no_other() {
    let system = System::start_watching(Watched::Cluster, &[]).await;
    with_namespace(&system, async |namespace| {
        secret(namespace).await;
        published_program(namespace).await;
        for (name, field, value, message) in [
            ("bad-config", "/spec/config", json!([1, 2]), "spec.config: [1,2]: invalid type: sequence, expected a map"),
            ("bad-field", "/spec/projectRepo", json!("https://example.com/a/b"), "missing \"commit\" or \"branch\""),
            ("bad-reference", "/spec/envRefs", json!({ "A": { "type": "Vault" } }), "ref type \"Vault\" is unknown here (spec.envRefs.A: use Secret or ConfigMap or Literal)"),
        ] {
            namespace.create_object(StackBuilder::new(name).stack("dev").set(field, value).build()).await.unwrap();
            let stalled = eventually(format!("{name} to be stalled"), async || {
                let stack = namespace.api::<pko_api::Decoded<Stack>>().get(name).await.unwrap();
                let status = match stack.as_result() {
                    Ok(stack) => json!(stack.status),
                    Err(bad) => json!(bad.status),
                };
                let stalled = status["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == "Stalled").cloned();
                stalled.ok_or(status.to_string())
            });
            let stalled = stalled.await.unwrap();
            assert_eq!((&stalled["reason"], &stalled["message"]), (&json!("SpecInvalid"), &json!(message)));
        }
        let trail = Trail::of(namespace, "demo");
        namespace.create_object(stack(&system)).await.unwrap();
        trail.until("Ready").await;
        let updates = namespace.api::<Update>().list(&kube::api::ListParams::default()).await.unwrap();
        assert_eq!(updates.items.len(), 1);
    })
    .await;
}
