//! A Stack's life with Pulumi's own CLI and with the embedded engine: for its user they are the
//! same.

use std::path::Path;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use pko_api::{Program, Stack, Update, auto::v1alpha1::UpdateStatus};
use pko_testkit::{
    ProgramBuilder, StackBuilder, TestNamespace, UpdateBuilder, eventually, pulumi_cli,
};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::{System, program, with_namespace},
    scripted_stacks::{credentials, patch_stack, publish},
};

async fn outputs(trail: &Trail) -> Value {
    json!(trail.stack().await.status.unwrap().outputs)
}

/// Creates an Update of the Stack's workspace, and waits until it has succeeded.
async fn run(namespace: &TestNamespace, operation: &str) -> UpdateStatus {
    let update = UpdateBuilder::new(operation, "demo", "dev", operation);
    namespace.create_object(update.build()).await.unwrap();
    let complete = eventually(format!("the {operation} to be complete"), async || {
        let update = namespace.api::<Update>().get(operation).await.unwrap();
        let status = update.status.unwrap_or_default();
        let is_true = |kind| {
            let mut conditions = status.conditions.iter();
            conditions.any(|found| found.type_ == kind && found.status == "True")
        };
        let is_complete = is_true("Complete");
        assert!(!is_true("Failed"), "{status:#?}");
        is_complete
            .then_some(status.clone())
            .ok_or(format!("{status:#?}"))
    });
    complete.await.unwrap()
}

/// Gives the Program an output of a resource that it does not have. The CLI's host for YAML
/// programs colors that complaint, which is nothing for a status.
async fn break_program_and_mend_it(namespace: &TestNamespace, trail: &Trail) {
    let output = |value: Value| {
        let change = Patch::Merge(json!({ "program": { "outputs": { "two": value } } }));
        async move {
            let programs = namespace.api::<Program>();
            let parameters = PatchParams::default();
            programs.patch("demo", &parameters, &change).await.unwrap();
        }
    };
    output(json!("${nobody.output}")).await;
    trail.until("Reconciling RetryingAfterFailure").await;
    let status = json!(trail.stack().await.status);
    let message = status["lastUpdate"]["message"].as_str().unwrap();
    assert!(message.contains("nobody"), "{message}");
    let updates = namespace.api::<Update>();
    let updates = updates.list(&ListParams::default()).await.unwrap();
    let updates = json!(updates.items);
    for text in [status.to_string(), updates.to_string()] {
        assert!(!text.contains("\\u001b"), "{text}");
    }
    output(Value::Null).await;
    trail.until("Ready").await;
}

/// Creation, a change with a refresh before it, a mistake in the program, a refresh, a preview, and
/// deletion with a destroy.
async fn stack_lives_and_ends(cli: &Path) {
    let cli = cli.to_str().unwrap();
    let system = System::start(&[("PKO_PULUMI", cli)]).await;
    with_namespace(&system, async |namespace| {
        namespace.create_object(credentials()).await.unwrap();
        let config = json!({
            "size": { "type": "integer" }, "token": { "type": "string", "secret": true },
        });
        let program = ProgramBuilder::new("demo")
            .set("/program/config", config)
            .resource("one", "pulumi:index:Stash", &json!({ "input": "first" }))
            .output("one", "${one.output}")
            .output("size", "${size}")
            .output("token", "${token}");
        publish(namespace, program.build()).await;
        let trail = Trail::of(namespace, "demo");
        let stack = StackBuilder::new("demo")
            .stack("dev")
            .backend(&system.backend())
            .program("demo")
            .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
            .config("size", 1)
            .set("/spec/secrets", json!({ "token": "hunter2" }))
            .destroy_on_finalize(true);
        namespace.create_object(stack.build()).await.unwrap();
        trail.until("Ready").await;
        let first = json!({ "one": "first", "size": 1, "token": "[secret]" });
        assert_eq!(outputs(&trail).await, first);
        assert_eq!(system.executed("demo", "dev"), 1);

        let change = json!({ "spec": { "config": { "size": 2 }, "refresh": true } });
        patch_stack(namespace, "demo", change).await;
        trail.until("Ready").await;
        assert_eq!(outputs(&trail).await["size"], 2);

        break_program_and_mend_it(namespace, &trail).await;

        let before = system.executed("demo", "dev");
        let refresh = run(namespace, "refresh").await;
        assert_eq!(
            refresh.resource_changes.get("same"),
            Some(&2),
            "{refresh:#?}"
        );
        assert_eq!(system.executed("demo", "dev"), before + 1);
        let preview = run(namespace, "preview").await;
        assert_eq!(json!(preview.planned_outputs)["size"], 2, "{preview:#?}");
        assert_eq!(
            system.executed("demo", "dev"),
            before + 1,
            "a preview changes nothing"
        );

        let stacks = namespace.api::<Stack>();
        stacks
            .delete("demo", &DeleteParams::default())
            .await
            .unwrap();
        trail.until_gone().await;
        assert_eq!(
            system.executed("demo", "dev"),
            before + 2,
            "the destroy ran"
        );
        system.no_workspace_is_left().await;
    })
    .await;
}

#[tokio::test]
async fn stack_lifecycle_with_pulumi_cli() {
    // Where it has to be built first, that takes minutes
    let cli = tokio::task::spawn_blocking(pulumi_cli).await.unwrap();
    stack_lives_and_ends(&cli.unwrap()).await;
}

#[tokio::test]
async fn stack_lifecycle_with_embedded_engine() {
    stack_lives_and_ends(&program("pulumi-engine")).await;
}
