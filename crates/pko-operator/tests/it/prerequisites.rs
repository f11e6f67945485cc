//! Stacks that have to do with each other: one comes first, or both are the same stack.

use kube::api::DeleteParams;
use pko_api::Stack;
use pko_testkit::{ProgramBuilder, StackBuilder, TestNamespace};
use serde_json::json;

use crate::{
    events::Trail,
    harness::{System, with_namespace},
    scripted_stacks::{credentials, patch_stack, publish, ready},
};

async fn program(namespace: &TestNamespace, name: &str) {
    let program = ProgramBuilder::new(name)
        .set(
            "/program/config",
            json!({ "token": { "type": "string", "default": "none" } }),
        )
        .resource("one", "pulumi:index:Stash", &json!({ "input": name }))
        .output("token", "${token}")
        .output("name", name)
        .build();
    publish(namespace, program).await;
}

fn stack(system: &System, name: &str) -> StackBuilder {
    StackBuilder::new(name)
        .stack(name)
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
}

async fn prepared(namespace: &TestNamespace) {
    namespace.create_object(credentials()).await.unwrap();
    program(namespace, "demo").await;
}

#[tokio::test]
async fn prerequisites_chain_of_three_runs_in_order() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        prepared(namespace).await;
        let (second, third) = (Trail::of(namespace, "second"), Trail::of(namespace, "third"));
        let create = async |stack: StackBuilder| {
            namespace.create_object(stack.build()).await.unwrap();
        };
        create(stack(&system, "third").prerequisite("second")).await;
        let seen = third.until("Reconciling PrerequisiteNotSatisfied").await;
        assert_eq!(
            seen,
            ["Reconciling PrerequisiteNotSatisfied: unable to fetch prerequisite \"second\": stacks.pulumi.com \"second\" not found"]
        );
        create(stack(&system, "second").prerequisite("first")).await;
        second.until("Reconciling PrerequisiteNotSatisfied: unable to fetch").await;
        let seen = third
            .until("Reconciling PrerequisiteNotSatisfied: prerequisite not satisfied for \"second\": prerequisite has not run")
            .await;
        assert!(!seen.is_empty());
        create(stack(&system, "first")).await;
        for name in ["first", "second", "third"] {
            ready(namespace, name).await;
        }
        let mut ends = Vec::new();
        for name in ["first", "second", "third"] {
            let stack = namespace.api::<Stack>().get(name).await.unwrap();
            ends.push(stack.status.unwrap().last_update.unwrap().last_resync_time.unwrap().0);
        }
        assert!(ends.is_sorted(), "{ends:?}");
    })
    .await;
}

#[tokio::test]
async fn prerequisites_cycle_is_reported_and_can_be_broken() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        prepared(namespace).await;
        let (one, other) = (Trail::of(namespace, "one"), Trail::of(namespace, "other"));
        for (name, first) in [("one", "other"), ("other", "one")] {
            let stack = stack(&system, name).prerequisite(first).build();
            namespace.create_object(stack).await.unwrap();
        }
        for trail in [&one, &other] {
            let seen = trail
                .until("Stalled SpecInvalid: spec.prerequisites form a cycle")
                .await;
            assert!(seen.last().unwrap().contains(" -> "), "{seen:?}");
        }
        patch_stack(namespace, "one", json!({ "spec": { "prerequisites": [] } })).await;
        ready(namespace, "one").await;
        ready(namespace, "other").await;
    })
    .await;
}

#[tokio::test]
async fn prerequisite_out_of_date_runs_first() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        prepared(namespace).await;
        namespace
            .create_object(stack(&system, "base").build())
            .await
            .unwrap();
        ready(namespace, "base").await;
        let before = namespace
            .api::<Stack>()
            .get("base")
            .await
            .unwrap()
            .status
            .unwrap();
        let within =
            json!([{ "name": "base", "requirement": { "succeededWithinDuration": "1ms" } }]);
        let dependent = stack(&system, "dependent").set("/spec/prerequisites", within);
        namespace.create_object(dependent.build()).await.unwrap();
        let last = before.last_update.unwrap();
        let asked = format!("after-{}", last.name.unwrap());
        pko_testkit::eventually("the other to run again", async || {
            let base = namespace.api::<Stack>().get("base").await.unwrap();
            let last = base.status.unwrap().last_update.unwrap();
            let request = last.reconcile_request.clone();
            (request == Some(asked.clone()))
                .then_some(())
                .ok_or(format!("{request:?}"))
        })
        .await
        .unwrap();
        // A duration of nothing has always elapsed, so the Stack keeps waiting and reports it.
        patch_stack(
            namespace,
            "dependent",
            json!({ "spec": { "prerequisites": [{ "name": "base" }] } }),
        )
        .await;
        ready(namespace, "dependent").await;
    })
    .await;
}

/// One of them applies, the other previews; the one that previewed destroys nothing.
#[tokio::test]
async fn two_stacks_on_one_pulumi_stack_run_in_turn() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        prepared(namespace).await;
        let shared = |name: &str| {
            stack(&system, name)
                .stack("shared")
                .destroy_on_finalize(true)
                .set("/spec/retryOnUpdateConflict", true)
        };
        let looking = shared("looking").set("/spec/preview", true);
        namespace
            .create_object(shared("applying").build())
            .await
            .unwrap();
        namespace.create_object(looking.build()).await.unwrap();
        ready(namespace, "applying").await;
        ready(namespace, "looking").await;
        let applied = system.executed("demo", "shared");

        let trail = Trail::of(namespace, "looking");
        let stacks = namespace.api::<Stack>();
        stacks
            .delete("looking", &DeleteParams::default())
            .await
            .unwrap();
        trail.until_gone().await;
        assert_eq!(
            system.executed("demo", "shared"),
            applied,
            "nothing was destroyed"
        );
        patch_stack(
            namespace,
            "applying",
            json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } } }),
        )
        .await;
        pko_testkit::eventually("it to run once more", async || {
            let runs = system.executed("demo", "shared");
            (runs > applied).then_some(()).ok_or(runs)
        })
        .await
        .unwrap();
        ready(namespace, "applying").await;
    })
    .await;
}

#[tokio::test]
async fn secrets_provider_survives_a_change_of_source() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        prepared(namespace).await;
        program(namespace, "other").await;
        let token = json!({ "type": "Literal", "literal": { "value": "hunter2" } });
        let stack = stack(&system, "dev")
            .set("/spec/secretsProvider", "passphrase")
            .set("/spec/secretsRef", json!({ "token": token }))
            .set(
                "/spec/outputsTo",
                json!([{ "kind": "Secret", "name": "outputs" }]),
            );
        namespace.create_object(stack.build()).await.unwrap();
        ready(namespace, "dev").await;
        // Another program of the same project would be the same stack; this one is another
        // project's.
        patch_stack(
            namespace,
            "dev",
            json!({ "spec": { "programRef": { "name": "other" } } }),
        )
        .await;
        ready(namespace, "dev").await;
        patch_stack(
            namespace,
            "dev",
            json!({ "spec": { "programRef": { "name": "demo" } } }),
        )
        .await;
        ready(namespace, "dev").await;
        let status = namespace
            .api::<Stack>()
            .get("dev")
            .await
            .unwrap()
            .status
            .unwrap();
        let outputs = status.outputs.unwrap();
        assert_eq!(outputs["name"], "demo");
        assert_eq!(outputs["token"], "[secret]");
    })
    .await;
}
