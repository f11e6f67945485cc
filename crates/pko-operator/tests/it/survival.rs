//! A run outlives the manager that started it.

use kube::api::ListParams;
use pko_api::Update;
use pko_testkit::{ProgramBuilder, StackBuilder, TestNamespace, eventually};
use serde_json::json;

use crate::{
    system::{System, program},
    trail::Trail,
};

#[tokio::test]
async fn a_killed_manager_interrupts_nothing() {
    // One resource, so the run takes ten seconds; only our engine can be told to.
    let engine = program("pulumi-engine").display().to_string();
    let environment = [
        ("PKO_PULUMI", engine.as_str()),
        ("PKO_ENGINE_STEP_DELAY", "10s"),
    ];
    let mut system = System::start(&environment).await;
    let namespace = TestNamespace::create(&system.plane).await.unwrap();
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
        .build();
    let trail = Trail::of(&namespace, "slow");
    namespace.create_object(stack).await.unwrap();

    let running = eventually("the Update to progress", async || {
        let updates = namespace
            .api::<Update>()
            .list(&ListParams::default())
            .await
            .unwrap();
        let progressing = updates.items.iter().find(|update| {
            update
                .status
                .iter()
                .flat_map(|status| &status.conditions)
                .any(|condition| condition.type_ == "Progressing" && condition.status == "True")
        });
        progressing.cloned().ok_or("not yet")
    });
    let update = running.await.unwrap();
    // Progressing is written before the run begins; the agent's journal says that it has.
    let journal = system.journal(
        namespace.name(),
        "slow",
        update.metadata.uid.as_deref().unwrap(),
    );
    let begun = eventually("the run to begin", async || {
        if journal.exists() {
            Ok(())
        } else {
            Err("no journal")
        }
    });
    begun.await.unwrap();
    let agents = system.agents();
    assert_eq!(agents.len(), 1);
    system.kill_manager();
    assert_eq!(system.executed("slow", "dev"), 0, "the run is under way");
    system.start_manager();

    trail.until("Ready").await;
    assert_eq!(system.executed("slow", "dev"), 1, "one update was executed");
    assert_eq!(system.agents(), agents, "the agent was adopted");
    let updates = namespace
        .api::<Update>()
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(updates.items.len(), 1);
    assert_eq!(updates.items[0].metadata.uid, update.metadata.uid);
    let status = trail.stack().await.status.unwrap();
    assert_eq!(status.last_update.unwrap().name, update.metadata.name);
    let successes = trail
        .events()
        .await
        .into_iter()
        .filter(|event| event.contains("StackCreated"))
        .count();
    assert_eq!(successes, 1, "the result was recorded once");
}
