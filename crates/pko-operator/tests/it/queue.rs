//! The run queue: no more runs than allowed, and who waits says why.

use kube::api::ListParams;
use pko_api::{Stack, Update};
use pko_testkit::{ProgramBuilder, StackBuilder, TestNamespace, eventually};
use serde_json::json;

use crate::system::{System, program};

/// A Stack whose run takes a while, under this name.
async fn create(namespace: &TestNamespace, system: &System, name: &str) {
    let program = ProgramBuilder::new(name)
        .resource("one", "pulumi:index:Stash", &json!({ "input": "v1" }))
        .build();
    namespace.create_object(program).await.unwrap();
    let stack = StackBuilder::new(name)
        .stack("dev")
        .backend(&system.backend())
        .program(name)
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .build();
    namespace.create_object(stack).await.unwrap();
}

async fn namespace(system: &System) -> TestNamespace {
    let namespace = TestNamespace::create(&system.plane).await.unwrap();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "credentials" },
        "stringData": { "passphrase": "correct-horse" },
    });
    namespace.create_object(secret).await.unwrap();
    namespace
}

/// The Progressing conditions of all Updates: status, reason and message.
async fn progress(namespaces: &[&TestNamespace]) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for namespace in namespaces {
        let updates = namespace
            .api::<Update>()
            .list(&ListParams::default())
            .await
            .unwrap();
        for update in updates.items {
            let conditions = update
                .status
                .map(|status| status.conditions)
                .unwrap_or_default();
            let progress = conditions
                .into_iter()
                .find(|condition| condition.type_ == "Progressing");
            all.extend(progress.map(|found| (found.status, found.reason, found.message)));
        }
    }
    all
}

async fn are_ready(namespaces: &[&TestNamespace], count: usize) -> bool {
    let mut ready = 0;
    for namespace in namespaces {
        let stacks = namespace
            .api::<Stack>()
            .list(&ListParams::default())
            .await
            .unwrap();
        ready += stacks
            .items
            .iter()
            .flat_map(|stack| stack.status.iter().flat_map(|status| &status.conditions))
            .filter(|condition| condition.type_ == "Ready" && condition.status == "True")
            .count();
    }
    ready == count
}

#[tokio::test]
async fn one_run_at_a_time_in_the_cluster_also_across_a_restart() {
    // One resource, so that a run takes three seconds; only our engine can be told to.
    let engine = program("pulumi-engine").display().to_string();
    let environment = [
        ("PKO_PULUMI", engine.as_str()),
        ("PKO_ENGINE_STEP_DELAY", "3s"),
        ("PKO_MAX_RUNS", "1"),
    ];
    let mut system = System::start(&environment).await;
    let (one, two) = (namespace(&system).await, namespace(&system).await);
    let both = [&one, &two];
    for (namespace, name) in [(&one, "first"), (&one, "second"), (&two, "third")] {
        create(namespace, &system, name).await;
    }
    let is_running = |(status, _, _): &&(String, String, String)| status == "True";
    eventually("one to run and another to wait for it", async || {
        let progress = progress(&both).await;
        let waiting = progress.iter().find(|(_, reason, _)| reason == "Queued");
        let told = waiting.is_some_and(|(_, _, message)| {
            message.starts_with(
                "waiting for its turn: 1 run is under way in the cluster, which is the limit",
            )
        });
        if told && progress.iter().any(|found| is_running(&found)) {
            Ok(())
        } else {
            Err(format!("{progress:?}"))
        }
    })
    .await
    .unwrap();
    system.kill_manager();
    system.start_manager();
    eventually("all to be ready", async || {
        let progress = progress(&both).await;
        let running = progress.iter().filter(is_running).count();
        assert!(running <= 1, "{progress:?}");
        if are_ready(&both, 3).await {
            Ok(())
        } else {
            Err(format!("{progress:?}"))
        }
    })
    .await
    .unwrap();
    for name in ["first", "second", "third"] {
        assert_eq!(system.executed(name, "dev"), 1, "{name}");
    }
}
