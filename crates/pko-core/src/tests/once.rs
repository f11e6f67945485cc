//! An Update's run is begun once, whatever happens to the operator, the pod, the connection and the objects; and
//! each look at what is not over names the next one.

use pko_api::names::{annotations, conditions::ConditionType};
use proptest::prelude::*;
use serde_json::json;

use super::{cluster::Cluster, laws};
use crate::{condition_set::is_true, update::RunError};

/// What may happen between two looks.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Look,
    /// The operator dies after so many more writes, and is started again.
    Death(usize),
    PodReplaced,
    AgentGone,
    AgentBack,
    WorkspaceNotReady,
    WorkspaceReady,
    Canceled,
    Deleted,
    WorkspaceDeleted,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => Just(Happening::Look),
        4 => (0..4_usize).prop_map(Happening::Death),
        2 => Just(Happening::PodReplaced),
        2 => Just(Happening::AgentGone),
        3 => Just(Happening::AgentBack),
        1 => Just(Happening::WorkspaceNotReady),
        2 => Just(Happening::WorkspaceReady),
        1 => Just(Happening::Canceled),
        1 => Just(Happening::Deleted),
        1 => Just(Happening::WorkspaceDeleted),
    ]
}

/// A new Update of a Workspace that is ready.
fn new() -> Cluster {
    let mut cluster = Cluster::new(&json!({ "stack": "dev" }));
    let owner = json!({ "apiVersion": "v", "kind": "Workspace", "name": "demo", "uid": "w", "controller": true });
    let update = json!({
        // Held, so that what becomes of it can be seen.
        "metadata": { "name": "demo-1", "generation": 1, "uid": "run", "finalizers": ["hold"], "ownerReferences": [owner] },
        "spec": { "workspaceName": "demo", "stackName": "dev", "type": "up" },
    });
    let update = serde_json::from_value(update).unwrap();
    cluster.updates.insert("demo-1".to_owned(), update);
    workspace(&mut cluster, "True");
    cluster
}

fn workspace(cluster: &mut Cluster, ready: &str) {
    let condition = json!({
        "type": "Ready", "status": ready, "reason": "X", "message": "", "lastTransitionTime": cluster.now.to_string(),
    });
    let workspace = json!({
        "metadata": { "name": "demo", "generation": 1 },
        "status": { "observedGeneration": 1, "conditions": [condition] },
    });
    cluster.workspace = Some(serde_json::from_value(workspace).unwrap());
}

fn happen(cluster: &mut Cluster, happening: Happening) {
    match happening {
        Happening::Look => look(cluster),
        Happening::Death(writes) => {
            cluster.writes_left = Some(writes);
            look(cluster);
            cluster.writes_left = None;
        }
        Happening::PodReplaced => cluster.replace_pod(),
        Happening::AgentGone => {
            cluster.agent_error = Some(RunError::Unreachable("no route".to_owned()));
        }
        Happening::AgentBack => cluster.agent_error = None,
        Happening::WorkspaceNotReady | Happening::WorkspaceReady if cluster.workspace.is_none() => {
        }
        Happening::WorkspaceNotReady => workspace(cluster, "False"),
        Happening::WorkspaceReady => workspace(cluster, "True"),
        Happening::Canceled => {
            if let Some(update) = cluster.updates.get_mut("demo-1") {
                let annotations = update.metadata.annotations.get_or_insert_default();
                annotations.insert(annotations::CANCEL.to_owned(), "true".to_owned());
            }
        }
        Happening::Deleted => cluster.delete_update("demo-1"),
        Happening::WorkspaceDeleted => cluster.delete_workspace(),
    }
}

/// The laws are held up at each look: one is that no run is begun twice, another that there is a next look.
fn look(cluster: &mut Cluster) {
    cluster.advance(1);
    let _ = laws::update(cluster, "demo-1");
}

fn is_over(cluster: &Cluster) -> bool {
    let status = cluster
        .updates
        .get("demo-1")
        .and_then(|update| update.status.as_ref());
    status.is_some_and(|status| is_true(&status.conditions, ConditionType::Complete))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_is_begun_once_and_its_update_comes_to_an_end(happenings in prop::collection::vec(happening(), 0..30)) {
        let mut cluster = new();
        for happening in happenings {
            happen(&mut cluster, happening);
        }
        // Then the world calms down: a Workspace that was deleted is deleted for good, and the rest is well.
        happen(&mut cluster, Happening::AgentBack);
        if cluster.workspace.is_none() {
            happen(&mut cluster, Happening::Deleted);
        }
        happen(&mut cluster, Happening::WorkspaceReady);
        for _ in 0..10 {
            look(&mut cluster);
        }
        prop_assert!(is_over(&cluster), "{:#?}", cluster.updates);
        prop_assert!(cluster.begun.len() <= 1);
    }
}
