//! A run outlives the manager that started it.

use kube::api::ListParams;
use pko_api::Update;
use pko_testkit::{
    ProgramBuilder, Reply, Script, StackBuilder, StandIn, TestNamespace, eventually,
};
use serde_json::json;

use crate::{
    events::Trail,
    harness::{System, folder_of},
};

async fn updates(namespace: &TestNamespace) -> Vec<Update> {
    let updates = namespace.api().list(&ListParams::default()).await;
    updates.unwrap().items
}

#[tokio::test]
async fn manager_kill_does_not_interrupt_a_run() {
    let program = StandIn::program().display().to_string();
    let mut system = System::start(&[("PKO_PULUMI", &program)]).await;
    let gated = Reply::new().waits_for("gate").run_default();
    let stand_in = system.stand_in(&Script::new().on("up", gated));
    let namespace = system.namespace().await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "credentials" },
        "stringData": { "passphrase": "correct-horse" },
    });
    namespace.create_object(secret).await.unwrap();
    let program = ProgramBuilder::new("slow")
        .resource("one", "pulumi:index:Stash", &json!({ "input": "v1" }))
        .output("one", "${one.output}")
        .build();
    namespace.create_object(program).await.unwrap();
    let stack = StackBuilder::new("slow")
        .stack("dev")
        .backend(&system.backend())
        .program("slow")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .set("/spec/envRefs/PKO_STAND_IN", folder_of(&stand_in))
        .build();
    let trail = Trail::of(&namespace, "slow");
    namespace.create_object(stack).await.unwrap();

    eventually("the run to begin", async || {
        let runs = stand_in.count("up");
        if runs == 1 { Ok(()) } else { Err(runs) }
    })
    .await
    .unwrap();
    let agents = system.agents();
    assert_eq!(agents.len(), 1);
    let before = updates(&namespace).await;
    system.kill_manager();
    system.start_manager();
    System::works(&namespace, "another").await;
    assert_eq!(system.agents(), agents, "the agent was adopted");
    stand_in.create("gate");

    trail.until("Ready").await;
    assert_eq!(stand_in.count("up"), 1, "one update was executed");
    let ups = stand_in.calls().into_iter().filter(|call| call.is("up"));
    let ends: Vec<_> = ups.map(|call| (call.signals, call.code)).collect();
    assert_eq!(ends, [(Vec::new(), Some(0))], "nobody interrupted it");
    let after = updates(&namespace).await;
    assert_eq!((before.len(), after.len()), (1, 1));
    assert_eq!(before[0].metadata.uid, after[0].metadata.uid);
    let status = trail.stack().await.status.unwrap();
    assert_eq!(status.last_update.unwrap().name, before[0].metadata.name);
    let events = trail.wait_for_event("StackCreated").await;
    let successes = events.iter().filter(|event| event.contains("StackCreated"));
    assert_eq!(successes.count(), 1, "the result was recorded once");
}
