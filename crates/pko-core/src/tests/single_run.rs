//! The run of an Update starts once, in spite of faults of the manager, the pod, the connection and
//! the objects; and every Update that is not complete has a requeue deadline.

use pko_api::names::{annotations, conditions::ConditionType};
use proptest::prelude::*;
use serde_json::json;

use super::{invariants, simulated_cluster::SimulatedCluster};
use crate::{condition_set::is_true, update::RunError};

/// What may happen between two passes.
#[derive(Clone, Copy, Debug)]
enum RunEvent {
    Reconcile,
    /// The manager crashes after this many writes, and restarts.
    Crash(usize),
    PodReplaced,
    AgentUnreachable,
    AgentReachable,
    WorkspaceNotReady,
    WorkspaceReady,
    Canceled,
    Deleted,
    WorkspaceDeleted,
}

fn event() -> impl Strategy<Value = RunEvent> {
    prop_oneof![
        6 => Just(RunEvent::Reconcile),
        4 => (0..4_usize).prop_map(RunEvent::Crash),
        2 => Just(RunEvent::PodReplaced),
        2 => Just(RunEvent::AgentUnreachable),
        3 => Just(RunEvent::AgentReachable),
        1 => Just(RunEvent::WorkspaceNotReady),
        2 => Just(RunEvent::WorkspaceReady),
        1 => Just(RunEvent::Canceled),
        1 => Just(RunEvent::Deleted),
        1 => Just(RunEvent::WorkspaceDeleted),
    ]
}

/// A new Update with a Workspace that is ready.
fn new() -> SimulatedCluster {
    let mut cluster = SimulatedCluster::new(&json!({ "stack": "dev" }));
    let owner = json!({ "apiVersion": "v", "kind": "Workspace", "name": "demo", "uid": "w", "controller": true });
    let update = json!({
        // A finalizer keeps the Update, so that its result can be checked.
        "metadata": { "name": "demo-1", "generation": 1, "uid": "run", "finalizers": ["hold"], "ownerReferences": [owner] },
        "spec": { "workspaceName": "demo", "stackName": "dev", "type": "up" },
    });
    let update = serde_json::from_value(update).unwrap();
    cluster.updates.insert("demo-1".to_owned(), update);
    workspace(&mut cluster, "True");
    cluster
}

fn workspace(cluster: &mut SimulatedCluster, ready: &str) {
    let condition = json!({
        "type": "Ready", "status": ready, "reason": "X", "message": "", "lastTransitionTime": cluster.now.to_string(),
    });
    let workspace = json!({
        "metadata": { "name": "demo", "generation": 1 },
        "status": { "observedGeneration": 1, "conditions": [condition] },
    });
    cluster.workspace = Some(serde_json::from_value(workspace).unwrap());
}

fn happen(cluster: &mut SimulatedCluster, event: RunEvent) {
    match event {
        RunEvent::Reconcile => reconcile(cluster),
        RunEvent::Crash(writes) => {
            cluster.writes_left = Some(writes);
            reconcile(cluster);
            cluster.writes_left = None;
        }
        RunEvent::PodReplaced => cluster.replace_pod(),
        RunEvent::AgentUnreachable => {
            cluster.agent_error = Some(RunError::Unreachable("no route".to_owned()));
        }
        RunEvent::AgentReachable => cluster.agent_error = None,
        RunEvent::WorkspaceNotReady | RunEvent::WorkspaceReady if cluster.workspace.is_none() => {}
        RunEvent::WorkspaceNotReady => workspace(cluster, "False"),
        RunEvent::WorkspaceReady => workspace(cluster, "True"),
        RunEvent::Canceled => {
            if let Some(update) = cluster.updates.get_mut("demo-1") {
                let annotations = update.metadata.annotations.get_or_insert_default();
                annotations.insert(annotations::CANCEL.to_owned(), "true".to_owned());
            }
        }
        RunEvent::Deleted => cluster.delete_update("demo-1"),
        RunEvent::WorkspaceDeleted => cluster.delete_workspace(),
    }
}

/// Checks the invariants, among them that no run starts twice and that there is a requeue deadline.
fn reconcile(cluster: &mut SimulatedCluster) {
    cluster.advance(1);
    let _ = invariants::update(cluster, "demo-1");
}

fn is_complete(cluster: &SimulatedCluster) -> bool {
    let status = cluster
        .updates
        .get("demo-1")
        .and_then(|update| update.status.as_ref());
    status.is_some_and(|status| is_true(&status.conditions, ConditionType::Complete))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn run_starts_once_and_its_update_completes(events in prop::collection::vec(event(), 0..30)) {
        let mut cluster = new();
        for event in events {
            happen(&mut cluster, event);
        }
        // Then the faults end. A deleted Workspace stays deleted.
        happen(&mut cluster, RunEvent::AgentReachable);
        if cluster.workspace.is_none() {
            happen(&mut cluster, RunEvent::Deleted);
        }
        happen(&mut cluster, RunEvent::WorkspaceReady);
        for _ in 0..10 {
            reconcile(&mut cluster);
        }
        prop_assert!(is_complete(&cluster), "{:#?}", cluster.updates);
        prop_assert!(cluster.started.len() <= 1);
    }
}
