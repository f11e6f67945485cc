//! Trouble on a real node. Each ends well, and its user is told what happened.

use std::time::Duration;

use pko_api::{Program, Stack};
use pko_testkit::ProgramBuilder;
use serde_json::json;

use crate::{
    place::{alone, beside_others},
    pods::Process,
    stacks::{program_stack, text},
    system::DEPLOYMENT,
};

/// As long as a run lasts that is to survive something.
const RUN: &str = "25s";

#[tokio::test]
async fn a_run_goes_on_when_the_manager_is_killed() {
    alone(async |place| {
        place.create_slow("demo", RUN).await;
        let managers = Process::managers(&place.system.cluster);
        assert_eq!(managers.len(), 1, "{DEPLOYMENT}");
        managers[0].kill();
        place.ready("demo").await;
        place.ran_once("demo").await;
        place.system.until_rolled_out().await;
    })
    .await;
}

#[tokio::test]
async fn a_run_goes_on_while_the_api_server_is_started_again() {
    alone(async |place| {
        place.create_slow("demo", RUN).await;
        place.system.cluster.restart_api_server().await.unwrap();
        place.ready("demo").await;
        place.ran_once("demo").await;
    })
    .await;
}

#[tokio::test]
async fn a_run_goes_on_while_the_kubelet_is_away_for_a_minute() {
    alone(async |place| {
        place.create_slow("demo", RUN).await;
        let uid = place.pod_uid("demo").await;
        place.system.cluster.stop_kubelet().unwrap();
        tokio::time::sleep(Duration::from_mins(1)).await;
        place.system.cluster.start_kubelet().unwrap();
        place.ready("demo").await;
        place.ran_once("demo").await;
        assert_eq!(place.pod_uid("demo").await, uid, "the pod stays");
        // What comes after it finds the node well
        place.create_simple("next").await;
        place.ready("next").await;
    })
    .await;
}

#[tokio::test]
async fn a_run_whose_pod_is_deleted_ends_gently_and_is_made_up_for() {
    beside_others(async |place| {
        place.create_slow("demo", RUN).await;
        let uid = place.pod_uid("demo").await;
        place.delete_pod("demo").await;
        place.ready("demo").await;
        assert_ne!(place.pod_uid("demo").await, uid, "another pod");
        assert!(!place.is_locked("demo"), "the lock was given back");
    })
    .await;
}

#[tokio::test]
async fn a_run_whose_agent_is_killed_is_told_and_made_up_for() {
    beside_others(async |place| {
        place.create_slow("demo", RUN).await;
        let uid = place.pod_uid("demo").await;
        place.agent("demo").kill();
        place
            .until("the end of the run to be told", async || {
                let updates = place.updates_of("demo").await?;
                let told = updates.iter().any(|update| {
                    let message = update
                        .status
                        .as_ref()
                        .and_then(|status| status.message.as_deref());
                    message.is_some_and(|message| {
                        message.contains("the agent ended while the run went on")
                    })
                });
                if told { Ok(()) } else { Err(text(&updates)) }
            })
            .await;
        // Whoever is killed leaves its lock behind, with Pulumi's CLI as with ours.
        place.ready("demo").await;
        assert_eq!(place.pod_uid("demo").await, uid, "the pod stays");
        place
            .until("the agent to be started again, once", async || {
                let restarts = place.restarts("demo").await;
                if restarts == 1 {
                    Ok(())
                } else {
                    Err(restarts.to_string())
                }
            })
            .await;
        assert!(!place.is_locked("demo"), "the lock was removed");
    })
    .await;
}

/// A Program whose last text is as long as there is memory.
fn greedy(name: &str) -> ProgramBuilder {
    let mut program = ProgramBuilder::new(name).set("/program/variables/v0", "x".repeat(1024));
    for step in 1..=20 {
        let before = format!("${{v{}}}", step - 1);
        let path = format!("/program/variables/v{step}");
        program = program.set(&path, format!("{before}{before}"));
    }
    program.output("length", "${v20}")
}

#[tokio::test]
async fn a_run_that_wants_more_memory_than_there_is_says_so() {
    beside_others(async |place| {
        place.create(greedy("demo").build()).await;
        let stack = program_stack("demo").set(
            "/spec/workspaceTemplate/spec/resources",
            json!({ "limits": { "memory": "128Mi" } }),
        );
        place.create(stack.build()).await;
        place
            .until("the want of memory to be told", async || {
                let stack: Stack = place.get("demo").await?;
                let status = stack.status.unwrap_or_default();
                let all = text(&status);
                let told = ["for want of it", "OOMKilled"]
                    .iter()
                    .any(|word| all.contains(word));
                if told { Ok(()) } else { Err(all) }
            })
            .await;
        let small = json!({ "program": { "variables": null, "outputs": { "length": "short" } } });
        place.patch::<Program>("demo", small).await;
        // Whoever is killed leaves its lock behind, and the pod that knew of it is replaced by one with the new program.
        let stack = place.ready("demo").await;
        assert_eq!(stack.status.unwrap().outputs.unwrap()["length"], "short");
        assert!(!place.is_locked("demo"), "the lock was removed");
    })
    .await;
}
