//! Wishes 5 and 8: a killed run leaves a lock and a half-made resource behind, and both are
//! resolved without help.

use std::{fs, path::PathBuf};

use kube::api::ListParams;
use pko_api::Update;
use pko_testkit::{ProgramBuilder, StackBuilder, TestNamespace, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::System,
    scripted_stacks::{namespace, publish},
};

fn state(system: &System) -> PathBuf {
    let backend = system.backend();
    PathBuf::from(backend.strip_prefix("file://").unwrap()).join(".pulumi")
}

fn locks(system: &System) -> Vec<PathBuf> {
    let folder = state(system).join("locks/organization/killed/dev");
    let files = fs::read_dir(folder).into_iter().flatten();
    let files = files.map(|file| file.unwrap().path());
    // Each has a second file with its attributes.
    files
        .filter(|file| {
            file.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect()
}

/// The types of the resources that the stack has, as its backend keeps them.
fn resources(system: &System) -> Vec<String> {
    let file = state(system).join("stacks/killed/dev.json");
    let state: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let resources = state["checkpoint"]["latest"]["resources"].as_array();
    let kind = |resource: &Value| resource["type"].as_str().unwrap().to_owned();
    resources.into_iter().flatten().map(kind).collect()
}

async fn create(namespace: &TestNamespace, system: &System) {
    let program = ProgramBuilder::new("killed")
        .resource("one", "pulumi:index:Stash", &json!({ "input": "v1" }))
        .output("one", "${one.output}")
        .build();
    publish(namespace, program).await;
    let stack = StackBuilder::new("killed")
        .stack("dev")
        .backend(&system.backend())
        .program("killed")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .build();
    namespace.create_object(stack).await.unwrap();
}

/// The agent first, so that it does not see the engine's end.
fn kill_agent_and_engine(system: &System) {
    let mut processes = system.agents();
    processes.sort_unstable();
    assert_eq!(processes.len(), 2, "the agent and its engine");
    for process in processes {
        let process = i32::try_from(process).ok().and_then(Pid::from_raw);
        kill_process(process.unwrap(), Signal::KILL).unwrap();
    }
}

#[tokio::test]
async fn lock_of_a_killed_run_is_removed_and_the_stack_recovers() {
    let system = System::start(&[("PKO_ENGINE_STEP_DELAY", "5s")]).await;
    let namespace = namespace(&system).await;
    let trail = Trail::of(&namespace, "killed");
    create(&namespace, &system).await;
    eventually("the run to hold the stack", async || {
        let count = locks(&system).len();
        if count == 1 { Ok(()) } else { Err(count) }
    })
    .await
    .unwrap();
    kill_agent_and_engine(&system);
    assert_eq!(locks(&system).len(), 1, "it was left behind");

    let seen = trail.until("Ready").await;
    assert!(
        !seen.iter().any(|seen| seen.starts_with("Stalled")),
        "{seen:?}"
    );
    assert_eq!(locks(&system), Vec::<PathBuf>::new());
    assert_eq!(
        resources(&system),
        [
            "pulumi:pulumi:Stack",
            "pulumi:providers:pulumi",
            "pulumi:index:Stash"
        ],
        "each is there once"
    );
    let status = trail.stack().await.status.unwrap();
    let last = status.last_update.unwrap();
    assert_eq!(
        (last.failures, last.retries),
        (None, None),
        "nothing counts"
    );
    let updates = namespace.api::<Update>();
    let updates = updates.list(&ListParams::default()).await.unwrap();
    let killed = updates
        .iter()
        .find(|update| update.metadata.name != last.name)
        .unwrap();
    let removed = format!(
        "Successfully updated stack; removed the lock that run {} had left behind",
        killed.metadata.uid.as_ref().unwrap()
    );
    eventually("the event", async || {
        let events = trail.events().await;
        let is_told = events.iter().any(|event| event.ends_with(&removed));
        is_told.then_some(()).ok_or_else(|| events.join("\n"))
    })
    .await
    .unwrap();
}
