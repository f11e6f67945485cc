//! Runs that hang and agents that are dead do not affect other Stacks.

use std::fs;

use kube::api::ListParams;
use pko_api::Update;
use pko_testkit::{
    Reply, Script, StandIn, TestNamespace, UpdateBuilder, WorkspaceBuilder, eventually,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::{
    harness::System,
    scripted_stacks::{create_stack, namespace, ready},
};

const PROGRAM: &str = "name: hung\nruntime: yaml\noutputs:\n  size: 4\n";
const WORKSPACES: usize = 5;
const RUNS_EACH: usize = 10;

/// A Workspace with so many stacks, and an Update for each.
async fn create_runs(
    namespace: &TestNamespace,
    system: &System,
    stand_in: &StandIn,
    workspace: &str,
) {
    let source = stand_in.folder().join("source");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("Pulumi.yaml"), PROGRAM).unwrap();
    let folder = stand_in.folder().to_str().unwrap().to_owned();
    let variables = [
        ("PULUMI_BACKEND_URL", system.backend()),
        ("PULUMI_CONFIG_PASSPHRASE", "correct-horse".to_owned()),
        ("PKO_STAND_IN", folder),
    ];
    let stacks: Vec<String> = (0..RUNS_EACH)
        .map(|number| format!("{workspace}-{number}"))
        .collect();
    let builder = WorkspaceBuilder::new(workspace).local(source.to_str().unwrap());
    let builder = variables
        .into_iter()
        .fold(builder, |builder, (name, value)| {
            builder.push("/spec/env", json!({ "name": name, "value": value }))
        });
    let builder = stacks.iter().fold(builder, |builder, stack| {
        builder.push("/spec/stacks", json!({ "name": stack, "create": true }))
    });
    namespace.create_object(builder.build()).await.unwrap();
    for stack in &stacks {
        let update = UpdateBuilder::new(stack, workspace, stack, "up").build();
        namespace.create_object(update).await.unwrap();
    }
}

/// How many Updates have their run under way.
async fn under_way(namespace: &TestNamespace) -> usize {
    let updates = namespace.api::<Update>();
    let updates = updates.list(&ListParams::default()).await.unwrap();
    let conditions = updates
        .items
        .into_iter()
        .flat_map(|update| update.status.unwrap_or_default().conditions);
    conditions
        .filter(|condition| condition.type_ == "Progressing" && condition.status == "True")
        .count()
}

#[tokio::test]
async fn fifty_unresponsive_agents_do_not_delay_another_run() {
    let program = StandIn::program().display().to_string();
    // So few that a run which held one of these places would show.
    let environment = [
        ("PKO_PULUMI", program.as_str()),
        ("MAX_CONCURRENT_RECONCILES", "2"),
    ];
    let system = System::start(&environment).await;
    let hangs = Reply::new().waits_for("never").run_default();
    let hanging = system.stand_in(&Script::new().on("up", hangs));
    let well = StandIn::new(hanging.folder().with_file_name("well"), &Script::new());
    let namespace = namespace(&system).await;
    for number in 0..WORKSPACES {
        create_runs(&namespace, &system, &hanging, &format!("ws{number}")).await;
    }
    eventually("all runs to be under way", async || {
        let runs = under_way(&namespace).await;
        if runs == WORKSPACES * RUNS_EACH {
            Ok(())
        } else {
            Err(runs)
        }
    })
    .await
    .unwrap();
    create_stack(&namespace, &system, &well, "healthy").await;
    ready(&namespace, "healthy").await;

    // From now on their agents don't even answer.
    for agent in system.agents() {
        let process = i32::try_from(agent).ok().and_then(Pid::from_raw).unwrap();
        kill_process(process, Signal::STOP).unwrap();
    }
    create_stack(&namespace, &system, &well, "another").await;
    ready(&namespace, "another").await;
}
