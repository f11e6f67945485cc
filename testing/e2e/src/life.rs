//! The life of a Stack on a real node, and what its user sees of it.

use std::{fs, path::PathBuf, process::Command};

use kube::api::DeleteParams;
use pko_api::{Program, Stack, Update};
use serde_json::json;

use crate::{
    cli::{Cli, on_each_cli},
    place::{Place, beside_others},
    stacks::{STACK, holds, program, program_stack, slow, text},
};

/// A lock that another CLI holds, as both CLIs write it.
const FOREIGN_LOCK: &str =
    r#"{"pid":4242,"username":"alice","hostname":"laptop","timestamp":"2026-01-02T03:04:05Z"}"#;

on_each_cli! {
    stack_lives_and_dies_in_a_restricted_pod_without_a_service_account
    stack_is_created_changed_refreshed_previewed_and_destroyed
    stack_applied_again_under_the_same_name_is_ready_again
    stack_waits_for_a_foreign_lock_and_names_its_holder
    canceled_run_ends_and_the_next_one_succeeds
}

async fn stack_lives_and_dies_in_a_restricted_pod_without_a_service_account() {
    beside_others(async |place| {
        place.create(program("demo", &["one", "two"]).build()).await;
        let stack = program_stack("demo").destroy_on_finalize(true);
        place.create(stack.build()).await;
        let stack = place.ready("demo").await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        assert_eq!(outputs["one"], json!("kept by one"));
        assert!(place.has_resources("demo"));
        let pod = place.pod("demo").await.unwrap();
        let spec = pod.spec.unwrap();
        assert_eq!(spec.service_account_name.as_deref(), Some("default"));

        let uid = place.pod_uid("demo").await;
        place.request("demo", "again").await;
        place.ready("demo").await;
        assert_eq!(place.pod_uid("demo").await, uid, "the pod stays");

        place.delete("demo", &DeleteParams::default()).await;
        place.no_pod("demo").await;
        assert!(!place.has_resources("demo"), "it was destroyed");
    })
    .await;
}

/// Replaces the resources of the Program, each of which has an output.
async fn edit(place: &Place<'_>, resources: &[&str]) {
    let edited = program("demo", resources).build();
    place
        .patch::<Program>("demo", json!({ "program": edited["program"] }))
        .await;
}

/// Waits until the Stack has an output.
async fn has_output(place: &Place<'_>, name: &str) {
    place
        .until(format!("the output {name}"), async || {
            let stack: Stack = place.get("demo").await?;
            let outputs = stack.status.unwrap_or_default().outputs;
            let outputs = outputs.unwrap_or_default();
            let found = outputs.contains_key(name);
            if found { Ok(()) } else { Err(text(&outputs)) }
        })
        .await;
}

/// What the backend keeps of the stack.
fn checkpoint(place: &Place<'_>) -> String {
    let file = format!(".pulumi/stacks/demo/{STACK}.json");
    fs::read_to_string(place.state_folder().join(file)).unwrap()
}

async fn stack_is_created_changed_refreshed_previewed_and_destroyed() {
    beside_others(async |place| {
        place.create(program("demo", &["one"]).build()).await;
        let stack = program_stack("demo").destroy_on_finalize(true);
        place.create(stack.build()).await;
        place.ready("demo").await;

        edit(place, &["one", "two"]).await;
        has_output(place, "two").await;

        let refresh = json!({ "spec": { "refresh": true } });
        place.patch::<Stack>("demo", refresh).await;
        place.ready("demo").await;
        let updates = place.updates_of("demo").await.unwrap();
        let refreshed = updates.iter().filter(|it| it.spec.refresh == Some(true));
        assert_eq!(refreshed.count(), 1);
        assert_eq!(place.history("demo"), 3);

        let preview = json!({ "spec": { "refresh": false, "preview": true } });
        place.patch::<Stack>("demo", preview).await;
        place.ready("demo").await;
        edit(place, &["one", "two", "three"]).await;
        place.request("demo", "preview").await;
        place.ready("demo").await;
        assert!(!checkpoint(place).contains("kept by three"));
        assert_eq!(place.history("demo"), 3, "a preview changes nothing");

        let apply = json!({ "spec": { "preview": false } });
        place.patch::<Stack>("demo", apply).await;
        has_output(place, "three").await;
        assert!(checkpoint(place).contains("kept by three"));

        place.delete("demo", &DeleteParams::default()).await;
        assert!(!place.has_resources("demo"), "it was destroyed");
    })
    .await;
}

async fn stack_applied_again_under_the_same_name_is_ready_again() {
    beside_others(async |place| {
        place.create(program("demo", &["one"]).build()).await;
        let stack = program_stack("demo").destroy_on_finalize(true).build();
        let mut pods = Vec::new();
        for _ in 0..3 {
            // The StatefulSet and the pod of the one before may still be there.
            place.create(stack.clone()).await;
            place.ready("demo").await;
            pods.push(place.pod_uid("demo").await);
            place.delete("demo", &DeleteParams::default()).await;
            assert!(!place.has_resources("demo"), "it was destroyed");
        }
        pods.dedup();
        assert_eq!(pods.len(), 3, "each has a pod of its own");
    })
    .await;
}

async fn stack_waits_for_a_foreign_lock_and_names_its_holder() {
    beside_others(async |place| {
        place.create_simple("demo").await;
        place.ready("demo").await;
        let locks = place.state_folder().join(".pulumi/locks/organization");
        let locks = locks.join("demo").join(STACK);
        fs::create_dir_all(&locks).unwrap();
        let lock = locks.join("4e1b3b54-0b1c-4c6f-9a6f-3f5a3c8f0001.json");
        fs::write(&lock, FOREIGN_LOCK).unwrap();

        place.request("demo", "while locked").await;
        place
            .stack_is(
                "demo",
                "Stalled",
                "UpdateConflict",
                "alice@laptop (pid 4242)",
            )
            .await;
        assert!(lock.is_file(), "it is not ours to remove");

        fs::remove_file(&lock).unwrap();
        place.request("demo", "after").await;
        place.ready("demo").await;
        assert_eq!(place.history("demo"), 2);
    })
    .await;
}

/// A Stack whose run does not end by itself: the engine's step lasts for an hour, and the CLI's program
/// reads a pipe that has no writer.
async fn create_endless(place: &Place<'_>) {
    let mut endless = program("demo", &["one"]);
    if Cli::of_this_test() == Cli::Pulumi {
        let mut mkfifo = Command::new("mkfifo");
        let made = mkfifo.args(["-m", "666"]).arg(pipe(place)).status();
        assert!(made.unwrap().success());
        let read = json!({ "text": { "fn::readFile": "/state/pipe" } });
        endless = endless
            .set("/program/variables", read)
            .output("text", "${text}");
    }
    place.create(endless.build()).await;
    place
        .create(slow(program_stack("demo"), "3600s").build())
        .await;
}

fn pipe(place: &Place<'_>) -> PathBuf {
    place.state_folder().join("pipe")
}

/// Lets the program of a canceled run come to its end: Pulumi's CLI waits for that.
fn write_to_pipe(place: &Place<'_>) {
    let mut timeout = Command::new("timeout");
    let write = ["1", "sh", "-c", "echo text >\"$0\""];
    timeout.args(write).arg(pipe(place)).status().unwrap();
}

async fn canceled_run_ends_and_the_next_one_succeeds() {
    beside_others(async |place| {
        create_endless(place).await;
        place.run_begins("demo").await;
        let updates = place.updates_of("demo").await.unwrap();
        let update = updates[0].metadata.name.clone().unwrap();
        let cancel = json!({ "metadata": { "annotations": { "auto.pulumi.com/cancel": "true" } } });
        place.patch::<Update>(&update, cancel).await;
        place
            .until("the Update to be canceled", async || {
                let update: Update = place.get(&update).await?;
                let conditions = update.status.unwrap_or_default().conditions;
                let is_told = holds(Some(&conditions), "Progressing", "True", "", "canceled");
                if is_told.is_ok() && Cli::of_this_test() == Cli::Pulumi {
                    write_to_pipe(place);
                }
                holds(Some(&conditions), "Failed", "True", "Canceled", "")
            })
            .await;
        assert!(!place.is_locked("demo"), "the lock is released");

        let program = json!({ "program": { "variables": null, "outputs": { "text": null } } });
        place.patch::<Program>("demo", program).await;
        let stack = json!({ "spec": { "workspaceTemplate": { "spec": { "env": null } } } });
        place.patch::<Stack>("demo", stack).await;
        place.ready("demo").await;
        assert!(place.has_resources("demo"));
    })
    .await;
}
