//! An API server that is away, loses data, delivers late or not at all, or rejects: each change
//! still runs once.

use std::time::Duration;

use kube::{
    ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use pko_api::{Stack, Update};
use pko_testkit::{
    Reply, Script, StandIn, TestNamespace, eventually,
    fault_proxy::{FaultProxy, WriteFailure},
};
use serde_json::json;

use crate::{
    events::Trail,
    harness::{System, Watched},
    scripted_stacks::{create_stack, namespace, ready, updates, wait_for_runs},
};

const RESOURCES: [&str; 4] = ["stacks", "updates", "workspaces", "programs"];

/// A Stack whose manager reaches the API server through a proxy.
struct FaultStage {
    namespace: TestNamespace,
    stand_in: StandIn,
    proxy: FaultProxy,
    _system: System,
}

impl FaultStage {
    /// The Stack is ready, and nothing has gone wrong yet.
    async fn new() -> Self {
        let program = StandIn::program().display().to_string();
        let mut system = System::without_manager(&[("PKO_PULUMI", &program)]).await;
        let proxy = system.proxy();
        system.put_behind(&proxy);
        system.start_manager();
        let stand_in = system.stand_in(&Script::new());
        let namespace = namespace(&system).await;
        create_stack(&namespace, &system, &stand_in, "demo").await;
        let stage = Self {
            namespace,
            stand_in,
            proxy,
            _system: system,
        };
        stage.ran(1).await;
        stage
    }

    /// The next runs wait for a gate of this name.
    fn gate(&self, name: &str) {
        let gated = Reply::new().waits_for(name).run_default();
        self.stand_in.set_script(&Script::new().on("up", gated));
    }

    /// Wants something else.
    async fn change(&self, size: usize) {
        let patch = Patch::Merge(json!({ "spec": { "config": { "size": size } } }));
        let stacks = self.namespace.api::<Stack>();
        let patched = stacks.patch("demo", &PatchParams::default(), &patch).await;
        patched.unwrap();
    }

    /// Waits, while the watches restart now and then, as every API server makes them:
    /// what one of them has missed is in the list.
    async fn listed_now_and_then(&self, waiting: impl Future<Output = ()>) {
        let mut waiting = std::pin::pin!(waiting);
        while tokio::time::timeout(Duration::from_secs(5), &mut waiting)
            .await
            .is_err()
        {
            self.proxy.expire_watches();
        }
    }

    /// Waits until the Stack is ready: so many changes were so many runs, and so many Updates at
    /// most, as old ones are removed.
    async fn ran(&self, changes: usize) {
        ready(&self.namespace, "demo").await;
        assert_eq!(self.stand_in.count("up"), changes, "one for each change");
        let updates = updates(&self.namespace).await;
        assert!(updates.len() <= changes, "{updates:?}");
    }
}

#[tokio::test]
async fn run_that_ends_without_api_server_is_recorded_once() {
    let program = StandIn::program().display().to_string();
    let environment = [("PKO_PULUMI", program.as_str())];
    let system = System::start_watching(Watched::Cluster, &environment).await;
    let gated = Reply::new().waits_for("gate").run_default();
    let stand_in = system.stand_in(&Script::new().on("up", gated));
    let namespace = namespace(&system).await;
    create_stack(&namespace, &system, &stand_in, "demo").await;
    wait_for_runs(&stand_in, 1).await;
    let before = updates(&namespace).await;

    system.plane.stop_api_server().unwrap();
    stand_in.create("gate");
    eventually("the run to end", async || {
        let calls = stand_in.calls();
        let up = calls.into_iter().find(|call| call.is("up")).unwrap();
        up.ended.map(drop).ok_or("it runs")
    })
    .await
    .unwrap();
    system.plane.start_api_server().await.unwrap();

    ready(&namespace, "demo").await;
    let ups = stand_in.calls().into_iter().filter(|call| call.is("up"));
    let ends: Vec<_> = ups.map(|call| (call.signals, call.code)).collect();
    assert_eq!(ends, [(Vec::new(), Some(0))], "it ran once, to its end");
    assert_eq!((before.len(), updates(&namespace).await), (1, before));
    let events = Trail::of(&namespace, "demo")
        .wait_for_event("StackCreated")
        .await;
    let successes = events.iter().filter(|event| event.contains("StackCreated"));
    assert_eq!(successes.count(), 1, "{events:?}");
}

#[tokio::test]
async fn watch_interruptions_lose_nothing() {
    let stage = FaultStage::new().await;
    stage.gate("first");
    stage.change(2).await;
    wait_for_runs(&stage.stand_in, 2).await;
    stage.proxy.expire_watches();
    stage.stand_in.create("first");
    stage.ran(2).await;

    // Again and again, in every part of a run.
    stage.gate("second");
    let broken = async {
        for turn in 0..15 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if turn % 3 == 0 {
                stage.proxy.expire_watches();
            } else {
                stage.proxy.cut_watches();
            }
        }
    };
    let run = async {
        stage.change(3).await;
        wait_for_runs(&stage.stand_in, 3).await;
        stage.stand_in.create("second");
    };
    tokio::join!(broken, run);
    stage.ran(3).await;
}

#[tokio::test]
async fn late_or_lost_watch_events_start_nothing_twice() {
    let stage = FaultStage::new().await;
    for resource in RESOURCES {
        stage
            .proxy
            .delay_watch(resource, Duration::from_millis(700));
    }
    stage.change(2).await;
    stage.ran(2).await;
    stage.proxy.clear_faults();

    for resource in ["updates", "workspaces"] {
        stage.proxy.drop_watch_events(resource, 2);
    }
    stage.gate("gate");
    stage.change(3).await;
    stage
        .listed_now_and_then(wait_for_runs(&stage.stand_in, 3))
        .await;
    stage.stand_in.create("gate");
    stage.listed_now_and_then(stage.ran(3)).await;
}

#[tokio::test]
async fn failed_writes_are_retried() {
    let stage = FaultStage::new().await;
    let failures = [
        WriteFailure::ServerError,
        WriteFailure::TooManyRequests,
        WriteFailure::CutAfterCommit,
    ];
    for (changes, failure) in (2..).zip(failures) {
        let before = stage.proxy.writes().len();
        stage.proxy.fail(5, failure);
        stage.change(changes).await;
        // The fifth of them has failed.
        let met = eventually(format!("{failure:?} to meet a write"), async || {
            let writes = stage.proxy.writes().len() - before;
            if writes >= 5 { Ok(()) } else { Err(writes) }
        });
        met.await.unwrap();
        stage.proxy.clear_faults();
        stage.ran(changes).await;
    }
}

/// Found by the grid: the run had ended, and the answer to the write that said so was lost. The
/// next run of the stack waited forever for the run before it.
#[tokio::test]
async fn unanswered_status_write_releases_the_run_slot() {
    let stage = FaultStage::new().await;
    stage.gate("gate");
    stage.change(2).await;
    wait_for_runs(&stage.stand_in, 2).await;
    // The first write stores the outputs, the second completes the Update.
    stage
        .proxy
        .fail_from(2, 1_000, WriteFailure::CutAfterCommit);
    stage.stand_in.create("gate");
    let recorded = eventually("the end to be recorded", async || {
        let updates = stage.namespace.api::<Update>();
        let updates = updates.list(&ListParams::default()).await.unwrap();
        let is_over = |update: &Update| {
            let status = update.status.clone().unwrap_or_default();
            let mut conditions = status.conditions.iter();
            conditions.any(|found| found.type_ == "Complete" && found.status == "True")
        };
        let names = updates.iter().filter(|update| !is_over(update));
        let names: Vec<String> = names.map(Update::name_any).collect();
        names.is_empty().then_some(()).ok_or(names.join(", "))
    });
    recorded.await.unwrap();
    stage.ran(2).await;
    stage.proxy.clear_faults();
    stage.change(3).await;
    stage.ran(3).await;
}

#[tokio::test]
async fn workspace_missing_in_an_old_list_keeps_its_agent() {
    let program = StandIn::program().display().to_string();
    let mut system = System::without_manager(&[("PKO_PULUMI", &program)]).await;
    let proxy = system.proxy();
    system.put_behind(&proxy);
    system.start_manager();
    let namespace = namespace(&system).await;
    System::works(&namespace, "first").await;
    proxy.record_lists().await.unwrap();
    let stand_in = system.stand_in(&Script::new());
    create_stack(&namespace, &system, &stand_in, "demo").await;
    ready(&namespace, "demo").await;
    let agents = system.agents();

    system.kill_manager();
    proxy.replay_lists("workspaces");
    proxy.delay_watch("workspaces", Duration::from_secs(3));
    system.start_manager();
    System::works(&namespace, "second").await;
    proxy.clear_faults();
    let patch = Patch::Merge(json!({ "spec": { "config": { "size": 2 } } }));
    let stacks = namespace.api::<Stack>();
    let patched = stacks.patch("demo", &PatchParams::default(), &patch).await;
    patched.unwrap();
    wait_for_runs(&stand_in, 2).await;
    ready(&namespace, "demo").await;
    assert_eq!(system.agents(), agents, "the same process as before");
}
