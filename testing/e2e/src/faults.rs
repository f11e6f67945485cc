//! Faults on a real node. Each test expects recovery, and a status that explains the fault.

use std::time::Duration;

use pko_api::{Program, Stack};
use pko_testkit::ProgramBuilder;
use serde_json::json;

use crate::{
    operator_cluster::DEPLOYMENT,
    pods::Process,
    stacks::{program_stack, text},
    test_env::{run_concurrently, run_exclusively},
};

/// As long as a run lasts that is to survive something.
const RUN: &str = "25s";

#[tokio::test]
async fn run_continues_when_manager_is_killed() {
    run_exclusively(async |env| {
        env.create_slow("demo", RUN).await;
        let managers = Process::managers(&env.operator.cluster);
        assert_eq!(managers.len(), 1, "{DEPLOYMENT}");
        managers[0].kill();
        env.wait_for_ready("demo").await;
        env.assert_ran_once("demo").await;
        env.operator.wait_for_rollout().await;
    })
    .await;
}

#[tokio::test]
async fn run_continues_while_api_server_restarts() {
    run_exclusively(async |env| {
        env.create_slow("demo", RUN).await;
        env.operator.cluster.restart_api_server().await.unwrap();
        env.wait_for_ready("demo").await;
        env.assert_ran_once("demo").await;
    })
    .await;
}

#[tokio::test]
async fn run_continues_while_kubelet_is_down() {
    run_exclusively(async |env| {
        env.create_slow("demo", RUN).await;
        let uid = env.pod_uid("demo").await;
        env.operator.cluster.stop_kubelet().unwrap();
        tokio::time::sleep(Duration::from_mins(1)).await;
        env.operator.cluster.start_kubelet().unwrap();
        env.wait_for_ready("demo").await;
        env.assert_ran_once("demo").await;
        assert_eq!(env.pod_uid("demo").await, uid, "the pod stays");
        // The node still works
        env.create_simple("next").await;
        env.wait_for_ready("next").await;
    })
    .await;
}

#[tokio::test]
async fn run_in_deleted_pod_releases_lock_and_is_retried() {
    run_concurrently(async |env| {
        env.create_slow("demo", RUN).await;
        let uid = env.pod_uid("demo").await;
        env.delete_pod("demo").await;
        env.wait_for_ready("demo").await;
        assert_ne!(env.pod_uid("demo").await, uid, "another pod");
        assert!(!env.is_locked("demo"), "the lock was given back");
    })
    .await;
}

#[tokio::test]
async fn run_with_killed_agent_is_reported_and_retried() {
    run_concurrently(async |env| {
        env.create_slow("demo", RUN).await;
        let uid = env.pod_uid("demo").await;
        env.agent("demo").kill();
        env.wait_until("the end of the run to be told", async || {
            let updates = env.updates_of("demo").await?;
            let told = updates.iter().any(|update| {
                let message = update
                    .status
                    .as_ref()
                    .and_then(|status| status.message.as_deref());
                message.is_some_and(|message| message.contains("the agent ended during the run"))
            });
            if told { Ok(()) } else { Err(text(&updates)) }
        })
        .await;
        // A killed process leaves its lock behind, with Pulumi's CLI as with ours.
        env.wait_for_ready("demo").await;
        assert_eq!(env.pod_uid("demo").await, uid, "the pod stays");
        env.wait_until("the agent to be started again, once", async || {
            let restarts = env.restarts("demo").await;
            if restarts == 1 {
                Ok(())
            } else {
                Err(restarts.to_string())
            }
        })
        .await;
        assert!(!env.is_locked("demo"), "the lock was removed");
    })
    .await;
}

/// A Program whose last text is as long as there is memory.
fn memory_hungry_program(name: &str) -> ProgramBuilder {
    let mut program = ProgramBuilder::new(name).set("/program/variables/v0", "x".repeat(1024));
    for step in 1..=20 {
        let before = format!("${{v{}}}", step - 1);
        let path = format!("/program/variables/v{step}");
        program = program.set(&path, format!("{before}{before}"));
    }
    program.output("length", "${v20}")
}

#[tokio::test]
async fn run_out_of_memory_is_reported() {
    run_concurrently(async |env| {
        env.create(memory_hungry_program("demo").build()).await;
        let stack = program_stack("demo").set(
            "/spec/workspaceTemplate/spec/resources",
            json!({ "limits": { "memory": "128Mi" } }),
        );
        env.create(stack.build()).await;
        env.wait_until("the want of memory to be told", async || {
            let stack: Stack = env.get("demo").await?;
            let status = stack.status.unwrap_or_default();
            let all = text(&status);
            let told = ["ran out of memory", "OOMKilled"]
                .iter()
                .any(|word| all.contains(word));
            if told { Ok(()) } else { Err(all) }
        })
        .await;
        let small = json!({ "program": { "variables": null, "outputs": { "length": "short" } } });
        env.patch::<Program>("demo", small).await;
        // A killed process leaves its lock behind, and a pod with the new program replaces its pod.
        let stack = env.wait_for_ready("demo").await;
        assert_eq!(stack.status.unwrap().outputs.unwrap()["length"], "short");
        assert!(!env.is_locked("demo"), "the lock was removed");
    })
    .await;
}
