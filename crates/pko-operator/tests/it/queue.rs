//! The run queue: no more runs than allowed, and a waiting Update reports why.

use kube::api::{DeleteParams, ListParams};
use pko_api::{Stack, Update};
use pko_testkit::{Reply, Script, StandIn, TestNamespace, eventually};

use crate::{
    harness::{System, Watched},
    scripted_stacks::{create_stack, create_stack_named, namespace, ready, wait_for_runs},
};

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
async fn run_queue_limit_holds_across_a_restart() {
    let program = StandIn::program().display().to_string();
    let environment = [("PKO_PULUMI", program.as_str()), ("PKO_MAX_RUNS", "1")];
    let mut system = System::start_watching(Watched::Namespaces(2), &environment).await;
    let gated = Reply::new().waits_for("gate").run_default();
    let stand_in = system.stand_in(&Script::new().on("up", gated));
    let (one, two) = (namespace(&system).await, namespace(&system).await);
    let both = [&one, &two];
    for (namespace, name) in [(&one, "first"), (&one, "second"), (&two, "third")] {
        create_stack(namespace, &system, &stand_in, name).await;
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
    System::works(&one, "another").await;
    stand_in.create("gate");
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
    let mut spans: Vec<_> = stand_in
        .calls()
        .into_iter()
        .filter(|call| call.is("up"))
        .map(|call| (call.began, call.ended.unwrap()))
        .collect();
    spans.sort();
    assert_eq!(spans.len(), 3, "each ran once");
    for (one, next) in spans.iter().zip(&spans[1..]) {
        assert!(one.1 <= next.0, "two at a time: {spans:?}");
    }
}

/// A tenant whose endless run names another tenant's stack, and whose runs fill its own share.
#[tokio::test]
async fn run_queue_endless_run_does_not_hold_up_another_namespace() {
    const STACK: &str = "organization/demo/prod";
    let program = StandIn::program().display().to_string();
    let environment = [("PKO_PULUMI", program.as_str()), ("PKO_MAX_RUNS", "2")];
    let system = System::start_watching(Watched::Cluster, &environment).await;
    let gated = Reply::new().waits_for("gate").run_default();
    let endless = system.stand_in(&Script::new().on("up", gated));
    let quick = StandIn::new(endless.folder().with_file_name("quick"), &Script::new());
    let (hostile, victim) = (namespace(&system).await, namespace(&system).await);
    create_stack_named(&hostile, &system, &endless, "demo", STACK).await;
    wait_for_runs(&endless, 1).await;
    create_stack(&hostile, &system, &endless, "another").await;
    create_stack_named(&victim, &system, &quick, "demo", STACK).await;
    ready(&victim, "demo").await;
    let stacks = victim.api::<Stack>();
    let deleted = stacks.delete("demo", &DeleteParams::default()).await;
    deleted.unwrap();
    eventually("the victim's Stack to be deleted", async || {
        let stack = stacks.get_opt("demo").await.unwrap();
        stack.map_or(Ok(()), |stack| Err(format!("{:#?}", stack.status)))
    })
    .await
    .unwrap();
    assert_eq!(
        endless.count("up"),
        1,
        "it has not ended, and has one place"
    );
}
