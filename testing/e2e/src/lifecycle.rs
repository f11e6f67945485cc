//! The lifecycle of a Stack on a real node.

use std::{fs, path::PathBuf, process::Command};

use kube::api::DeleteParams;
use pko_api::{Program, Stack, Update};
use serde_json::json;

use crate::{
    cli::{Cli, on_each_cli},
    stacks::{STACK, check_condition, program, program_stack, text, with_step_delay},
    test_env::{TestEnv, run_concurrently},
};

/// A lock that another CLI holds, as both CLIs write it.
const FOREIGN_LOCK: &str =
    r#"{"pid":4242,"username":"alice","hostname":"laptop","timestamp":"2026-01-02T03:04:05Z"}"#;

on_each_cli! {
    stack_runs_in_restricted_pod_with_default_account
    stack_is_applied_refreshed_previewed_and_destroyed
    stack_recreated_under_same_name_becomes_ready
    stack_with_foreign_lock_stalls_and_names_holder
    canceled_run_ends_and_next_run_succeeds
}

async fn stack_runs_in_restricted_pod_with_default_account() {
    run_concurrently(async |env| {
        env.create(program("demo", &["one", "two"]).build()).await;
        let stack = program_stack("demo").destroy_on_finalize(true);
        env.create(stack.build()).await;
        let stack = env.wait_for_ready("demo").await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        assert_eq!(outputs["one"], json!("kept by one"));
        assert!(env.has_resources("demo"));
        let pod = env.pod("demo").await.unwrap();
        let spec = pod.spec.unwrap();
        assert_eq!(spec.service_account_name.as_deref(), Some("default"));

        let uid = env.pod_uid("demo").await;
        env.request_run("demo", "again").await;
        env.wait_for_ready("demo").await;
        assert_eq!(env.pod_uid("demo").await, uid, "the pod stays");

        env.delete("demo", &DeleteParams::default()).await;
        env.wait_for_no_pod("demo").await;
        assert!(!env.has_resources("demo"), "it was destroyed");
    })
    .await;
}

/// Replaces the resources of the Program, each of which has an output.
async fn edit(env: &TestEnv<'_>, resources: &[&str]) {
    let edited = program("demo", resources).build();
    env.patch::<Program>("demo", json!({ "program": edited["program"] }))
        .await;
}

/// Waits until the Stack has an output.
async fn wait_for_output(env: &TestEnv<'_>, name: &str) {
    env.wait_until(format!("the output {name}"), async || {
        let stack: Stack = env.get("demo").await?;
        let outputs = stack.status.unwrap_or_default().outputs;
        let outputs = outputs.unwrap_or_default();
        let found = outputs.contains_key(name);
        if found { Ok(()) } else { Err(text(&outputs)) }
    })
    .await;
}

/// The stack's checkpoint in the backend.
fn checkpoint(env: &TestEnv<'_>) -> String {
    let file = format!(".pulumi/stacks/demo/{STACK}.json");
    fs::read_to_string(env.state_folder().join(file)).unwrap()
}

async fn stack_is_applied_refreshed_previewed_and_destroyed() {
    run_concurrently(async |env| {
        env.create(program("demo", &["one"]).build()).await;
        let stack = program_stack("demo").destroy_on_finalize(true);
        env.create(stack.build()).await;
        env.wait_for_ready("demo").await;

        edit(env, &["one", "two"]).await;
        wait_for_output(env, "two").await;

        let refresh = json!({ "spec": { "refresh": true } });
        env.patch::<Stack>("demo", refresh).await;
        env.wait_for_ready("demo").await;
        let updates = env.updates_of("demo").await.unwrap();
        let refreshed = updates.iter().filter(|it| it.spec.refresh == Some(true));
        assert_eq!(refreshed.count(), 1);
        assert_eq!(env.history("demo"), 3);

        let preview = json!({ "spec": { "refresh": false, "preview": true } });
        env.patch::<Stack>("demo", preview).await;
        env.wait_for_ready("demo").await;
        edit(env, &["one", "two", "three"]).await;
        env.request_run("demo", "preview").await;
        env.wait_for_ready("demo").await;
        assert!(!checkpoint(env).contains("kept by three"));
        assert_eq!(env.history("demo"), 3, "a preview changes nothing");

        let apply = json!({ "spec": { "preview": false } });
        env.patch::<Stack>("demo", apply).await;
        wait_for_output(env, "three").await;
        assert!(checkpoint(env).contains("kept by three"));

        env.delete("demo", &DeleteParams::default()).await;
        assert!(!env.has_resources("demo"), "it was destroyed");
    })
    .await;
}

async fn stack_recreated_under_same_name_becomes_ready() {
    run_concurrently(async |env| {
        env.create(program("demo", &["one"]).build()).await;
        let stack = program_stack("demo").destroy_on_finalize(true).build();
        let mut pods = Vec::new();
        for _ in 0..3 {
            // The StatefulSet and the pod of the one before may still be there.
            env.create(stack.clone()).await;
            env.wait_for_ready("demo").await;
            pods.push(env.pod_uid("demo").await);
            env.delete("demo", &DeleteParams::default()).await;
            assert!(!env.has_resources("demo"), "it was destroyed");
        }
        pods.dedup();
        assert_eq!(pods.len(), 3, "each has a pod of its own");
    })
    .await;
}

async fn stack_with_foreign_lock_stalls_and_names_holder() {
    run_concurrently(async |env| {
        env.create_simple("demo").await;
        env.wait_for_ready("demo").await;
        let locks = env.state_folder().join(".pulumi/locks/organization");
        let locks = locks.join("demo").join(STACK);
        fs::create_dir_all(&locks).unwrap();
        let lock = locks.join("4e1b3b54-0b1c-4c6f-9a6f-3f5a3c8f0001.json");
        fs::write(&lock, FOREIGN_LOCK).unwrap();

        env.request_run("demo", "while locked").await;
        env.wait_for_stack_condition(
            "demo",
            "Stalled",
            "UpdateConflict",
            "alice@laptop (pid 4242)",
        )
        .await;
        assert!(lock.is_file(), "it is not ours to remove");

        fs::remove_file(&lock).unwrap();
        env.request_run("demo", "after").await;
        env.wait_for_ready("demo").await;
        assert_eq!(env.history("demo"), 2);
    })
    .await;
}

/// A Stack whose run does not end by itself: the engine's step lasts for an hour, and the CLI's
/// program reads a pipe that has no writer.
async fn create_endless(env: &TestEnv<'_>) {
    let mut endless = program("demo", &["one"]);
    if Cli::of_this_test() == Cli::Pulumi {
        let mut mkfifo = Command::new("mkfifo");
        let made = mkfifo.args(["-m", "666"]).arg(pipe(env)).status();
        assert!(made.unwrap().success());
        let read = json!({ "text": { "fn::readFile": "/state/pipe" } });
        endless = endless
            .set("/program/variables", read)
            .output("text", "${text}");
    }
    env.create(endless.build()).await;
    env.create(with_step_delay(program_stack("demo"), "3600s").build())
        .await;
}

fn pipe(env: &TestEnv<'_>) -> PathBuf {
    env.state_folder().join("pipe")
}

/// Lets the program of a canceled run come to its end: Pulumi's CLI waits for that.
fn write_to_pipe(env: &TestEnv<'_>) {
    let mut timeout = Command::new("timeout");
    let write = ["1", "sh", "-c", "echo text >\"$0\""];
    timeout.args(write).arg(pipe(env)).status().unwrap();
}

async fn canceled_run_ends_and_next_run_succeeds() {
    run_concurrently(async |env| {
        create_endless(env).await;
        env.wait_for_run("demo").await;
        let updates = env.updates_of("demo").await.unwrap();
        let update = updates[0].metadata.name.clone().unwrap();
        let cancel = json!({ "metadata": { "annotations": { "auto.pulumi.com/cancel": "true" } } });
        env.patch::<Update>(&update, cancel).await;
        env.wait_until("the Update to be canceled", async || {
            let update: Update = env.get(&update).await?;
            let conditions = update.status.unwrap_or_default().conditions;
            let is_told = check_condition(Some(&conditions), "Progressing", "True", "", "canceled");
            if is_told.is_ok() && Cli::of_this_test() == Cli::Pulumi {
                write_to_pipe(env);
            }
            check_condition(Some(&conditions), "Failed", "True", "Canceled", "")
        })
        .await;
        assert!(!env.is_locked("demo"), "the lock is released");

        let program = json!({ "program": { "variables": null, "outputs": { "text": null } } });
        env.patch::<Program>("demo", program).await;
        let stack = json!({ "spec": { "workspaceTemplate": { "spec": { "env": null } } } });
        env.patch::<Stack>("demo", stack).await;
        env.wait_for_ready("demo").await;
        assert!(env.has_resources("demo"));
    })
    .await;
}
