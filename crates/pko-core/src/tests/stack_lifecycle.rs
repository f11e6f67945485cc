//! The life cycle of a Stack, with the invariants checked at each step and a crash of the manager
//! at each write.

use pko_api::{
    auto::v1alpha1::OperationType::{Destroy, Up},
    names::conditions::ConditionType::{Ready, Stalled},
};
use serde_json::{Value, json};

use super::{
    invariants,
    simulated_cluster::{Crashed, SimulatedCluster},
};
use crate::{
    Requeue,
    workspace::{AgentError, RuntimeState, SetupStage, SetupState},
};

/// The most rounds until a step of the life cycle is reached.
const MAX_ROUNDS: usize = 200;

/// Reconciles each object once. Returns the seconds until the first one is due.
pub(super) fn reconcile_round(cluster: &mut SimulatedCluster) -> Result<Option<i64>, Crashed> {
    // No two passes happen at the same time.
    cluster.advance(1);
    let mut soonest: Option<i64> = None;
    let mut note = |requeue: Requeue| {
        if let Requeue::After(delay) = requeue {
            let seconds =
                i64::try_from(delay.as_secs()).unwrap() + i64::from(delay.subsec_nanos() > 0);
            soonest = Some(soonest.map_or(seconds, |soonest| soonest.min(seconds)));
        }
    };
    if let Some(pass) = invariants::stack(cluster)? {
        note(pass.plan.requeue);
    }
    if let Some(pass) = invariants::workspace(cluster)? {
        note(pass.plan.requeue);
    }
    let names: Vec<String> = cluster.updates.keys().cloned().collect();
    for name in names {
        if let Some(pass) = invariants::update(cluster, &name)? {
            note(pass.plan.requeue);
        }
    }
    Ok(soonest)
}

/// Reconciles everything until the goal is reached. If nothing happens, the time advances to the
/// next deadline. A manager that crashes restarts.
pub(super) fn until(
    cluster: &mut SimulatedCluster,
    goal: &str,
    reached: impl Fn(&SimulatedCluster) -> bool,
) {
    for _ in 0..MAX_ROUNDS {
        if reached(cluster) {
            return;
        }
        let before = (cluster.writes, cluster.runs.clone());
        match reconcile_round(cluster) {
            Err(Crashed) => cluster.writes_left = None,
            Ok(Some(seconds)) if before == (cluster.writes, cluster.runs.clone()) => {
                cluster.advance(seconds);
            }
            Ok(_) => {}
        }
    }
    panic!("never {goal}: {cluster:#?}");
}

/// Reconciles everything until nothing more is written.
pub(super) fn settle(cluster: &mut SimulatedCluster) {
    for _ in 0..5 {
        if reconcile_round(cluster).is_err() {
            cluster.writes_left = None;
        }
    }
}

fn has_succeeded(cluster: &SimulatedCluster) -> bool {
    let status = cluster
        .stack
        .as_ref()
        .and_then(|stack| stack.status.as_ref());
    let stack = cluster.stack.as_ref().unwrap();
    cluster.is_stack(Ready)
        && status.is_some_and(|status| {
            status.observed_generation == stack.metadata.generation
                && status.observed_reconcile_request.as_deref() == Some(request(cluster))
                && status
                    .last_update
                    .as_ref()
                    .is_some_and(|last| last.last_successful_commit == cluster.revision)
        })
}

fn request(cluster: &SimulatedCluster) -> &str {
    let annotations = cluster
        .stack
        .as_ref()
        .unwrap()
        .metadata
        .annotations
        .as_ref();
    annotations
        .and_then(|annotations| annotations.values().next())
        .map_or("", String::as_str)
}

pub(super) fn wait_until_ready(cluster: &mut SimulatedCluster) {
    until(cluster, "ready", has_succeeded);
    let status = cluster.stack.as_ref().unwrap().status.as_ref().unwrap();
    let shown = status.outputs.as_ref().unwrap()["revision"].to_string();
    assert_eq!(Some(shown), cluster.revision, "outputs of this revision");
}

pub(super) fn wait_until_deleted(cluster: &mut SimulatedCluster) {
    until(cluster, "deleted", |cluster| cluster.stack.is_none());
    until(cluster, "cleaned up", |cluster| cluster.updates.is_empty());
    assert_eq!(cluster.workspace, None);
}

pub(super) fn new(extra: &Value) -> SimulatedCluster {
    let mut spec =
        json!({ "stack": "dev", "programRef": { "name": "hello" }, "destroyOnFinalize": true });
    let fields = extra.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(fields);
    SimulatedCluster::new(&spec)
}

/// A user action, until the Stack has settled.
type LifecycleStep = fn(&mut SimulatedCluster);

/// The life cycle of a Stack.
const LIFECYCLE_STEPS: [(&str, LifecycleStep); 6] = [
    ("created", wait_until_ready),
    ("edited", |cluster| {
        cluster.edit(|stack| drop(stack.spec.config.insert("key".into(), json!(1))));
        wait_until_ready(cluster);
    }),
    ("requested", |cluster| {
        cluster.request("again");
        wait_until_ready(cluster);
    }),
    ("broken", |cluster| {
        cluster.runs_succeed = false;
        cluster.revision = Some("2".to_owned());
        until(cluster, "stalled", |cluster| cluster.is_stack(Stalled));
    }),
    ("repaired", |cluster| {
        cluster.runs_succeed = true;
        cluster.revision = Some("3".to_owned());
        wait_until_ready(cluster);
    }),
    ("deleted", |cluster| {
        cluster.delete_stack();
        wait_until_deleted(cluster);
    }),
];

#[test]
fn stack_lifecycle_runs_expected_operations() {
    let mut cluster = new(&json!({}));
    let runs = LIFECYCLE_STEPS.map(|(_, step)| {
        let before = cluster.log.len();
        step(&mut cluster);
        cluster.log.split_off(before)
    });
    let four_attempts = vec![Up; 4];
    assert_eq!(
        runs,
        [
            vec![Up],
            vec![Up],
            vec![Up],
            four_attempts,
            vec![Up],
            vec![Destroy]
        ]
    );
    let count = |reason: &str| {
        cluster
            .events
            .iter()
            .filter(|event| *event == reason)
            .count()
    };
    assert_eq!(count("StackUpdateDetected"), 9);
    assert_eq!(count("StackCreated"), 4);
    assert_eq!(count("StackDestroyed"), 1);
    assert_eq!(count("StackUpdateFailure"), 4);
}

#[test]
fn manager_crash_at_any_write_costs_at_most_one_run() {
    for policy in ["Retain", "Delete"] {
        let mut calm = new(&json!({ "workspaceReclaimPolicy": policy }));
        for (name, step) in LIFECYCLE_STEPS {
            let start = calm.clone();
            step(&mut calm);
            for crash in 0..calm.writes - start.writes {
                let mut cluster = start.clone();
                cluster.writes_left = Some(crash);
                step(&mut cluster);
                let runs = cluster.log.len().abs_diff(calm.log.len());
                // A lost result is retried, or counts as one of the attempts.
                assert!(
                    runs <= 1,
                    "{name}, crash at write {crash}: {:?}",
                    cluster.log
                );
                settle(&mut cluster);
                let kept = cluster.workspace.is_some();
                assert_eq!(
                    kept,
                    calm.workspace.is_some(),
                    "{name}, crash at write {crash}"
                );
                if cluster.stack.is_some() {
                    cluster.runs_succeed = true;
                    cluster.delete_stack();
                    wait_until_deleted(&mut cluster);
                }
            }
        }
    }
}

#[test]
fn manager_crash_at_any_write_ends_in_same_status() {
    let end = |crash: Option<usize>| {
        let mut cluster = new(&json!({}));
        cluster.writes_left = crash;
        wait_until_ready(&mut cluster);
        settle(&mut cluster);
        let status = cluster.stack.unwrap().status.unwrap();
        let last = status.last_update.unwrap();
        let end = (
            status.outputs,
            status.project_info,
            last.state,
            last.last_successful_commit,
        );
        (end, cluster.log.len(), cluster.writes)
    };
    let (expected, runs, writes) = end(None);
    for crash in 0..writes {
        let (reached, ran, _) = end(Some(crash));
        assert_eq!(reached, expected, "crash at write {crash}");
        assert!(ran <= runs + 1, "crash at write {crash}");
    }
}

#[test]
fn ready_stack_gets_no_writes() {
    let mut cluster = new(&json!({}));
    wait_until_ready(&mut cluster);
    settle(&mut cluster);
    let writes = cluster.writes;
    for _ in 0..10 {
        cluster.advance(30);
        reconcile_round(&mut cluster).unwrap();
    }
    assert_eq!(cluster.writes, writes, "no pass writes");
}

#[test]
fn resync_repeats_runs() {
    let mut cluster =
        new(&json!({ "continueResyncOnCommitMatch": true, "resyncFrequencySeconds": 60 }));
    wait_until_ready(&mut cluster);
    until(&mut cluster, "run three times", |cluster| {
        cluster.log.len() == 3
    });
    wait_until_ready(&mut cluster);
}

#[test]
fn deleted_update_is_retried() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
    let name = cluster.updates.keys().next().cloned().unwrap();
    cluster.delete_update(&name);
    wait_until_ready(&mut cluster);
    assert_eq!(cluster.log, [Up, Up]);
    assert!(
        !cluster.updates.contains_key(&name),
        "its finalizer is removed"
    );
}

#[test]
fn force_deleted_update_is_retried() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
    cluster.updates.clear();
    wait_until_ready(&mut cluster);
    assert_eq!(cluster.log, [Up, Up]);
}

#[test]
fn workspace_deleted_during_run_is_created_again() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
    cluster.delete_workspace();
    wait_until_ready(&mut cluster);
    assert_eq!(cluster.log, [Up, Up]);
}

#[test]
fn stack_delete_needs_no_program() {
    let mut cluster = new(&json!({}));
    wait_until_ready(&mut cluster);
    cluster.revision = None;
    cluster.delete_stack();
    wait_until_deleted(&mut cluster);
    assert_eq!(cluster.log, [Up, Destroy]);
}

/// A Stack that is ready and has a variable from a Secret.
fn with_secret() -> SimulatedCluster {
    let token = json!({ "type": "Secret", "secret": { "name": "tokens", "key": "t" } });
    let mut cluster = new(&json!({ "envRefs": { "TOKEN": token } }));
    cluster
        .secrets
        .insert("tokens".to_owned(), Some("1".to_owned()));
    wait_until_ready(&mut cluster);
    cluster
}

#[test]
fn stack_delete_needs_no_secret_while_its_workspace_runs() {
    for is_stack_first in [false, true] {
        let mut cluster = with_secret();
        if is_stack_first {
            cluster.delete_stack();
            reconcile_round(&mut cluster).unwrap();
        }
        cluster.secrets.clear();
        cluster.revision = None;
        if !is_stack_first {
            settle(&mut cluster);
            cluster.delete_stack();
        }
        wait_until_deleted(&mut cluster);
        assert_eq!(cluster.log, [Up, Destroy]);
        let written = cluster.journal.iter();
        let applied = written.filter(|entry| entry.ends_with("workspace applied"));
        assert_eq!(applied.count(), 1, "{:#?}", cluster.journal);
    }
}

/// The garbage collector deletes the Workspace first, and a new one needs the Secret.
#[test]
fn foreground_delete_waits_for_the_secret_of_its_new_workspace() {
    let mut cluster = with_secret();
    cluster.delete_stack_in_foreground();
    cluster.secrets.clear();
    until(&mut cluster, "stalled", |cluster| cluster.is_stack(Stalled));
    cluster
        .secrets
        .insert("tokens".to_owned(), Some("2".to_owned()));
    wait_until_deleted(&mut cluster);
    assert_eq!(cluster.log, [Up, Destroy]);
}

#[test]
fn stack_delete_without_workspace_ends_by_secret_or_skipped_destroy() {
    let stalled = || {
        let mut cluster = with_secret();
        cluster.runtime = RuntimeState::Failed("secret \"tokens\" not found".into());
        settle(&mut cluster);
        cluster.secrets.clear();
        cluster.delete_stack();
        until(&mut cluster, "stalled", |cluster| cluster.is_stack(Stalled));
        cluster
    };
    let mut cluster = stalled();
    cluster.runtime = with_secret().runtime;
    wait_until_deleted(&mut cluster);
    assert_eq!(cluster.log, [Up, Destroy], "its pod runs again");

    let mut cluster = stalled();
    cluster.edit(|stack| stack.spec.destroy_on_finalize = Some(false));
    wait_until_deleted(&mut cluster);
    assert_eq!(cluster.log, [Up]);
}

/// The pod is lost after the destroy was created and before it starts.
#[test]
fn destroy_that_waits_for_a_lost_pod_can_be_done_without() {
    let mut cluster = with_secret();
    cluster.delete_stack();
    invariants::stack(&mut cluster).unwrap();
    assert_eq!(cluster.updates.len(), 2, "the destroy waits");
    cluster.runtime = RuntimeState::Failed("secret \"tokens\" not found".into());
    cluster.secrets.clear();
    until(&mut cluster, "stalled", |cluster| cluster.is_stack(Stalled));
    cluster.edit(|stack| stack.spec.destroy_on_finalize = Some(false));
    wait_until_deleted(&mut cluster);
    assert_eq!(cluster.log, [Up]);
}

#[test]
fn failing_destroy_succeeds_eventually() {
    let mut cluster = new(&json!({}));
    wait_until_ready(&mut cluster);
    cluster.runs_succeed = false;
    cluster.delete_stack();
    until(&mut cluster, "attempted six times", |cluster| {
        cluster.log.len() == 7
    });
    assert!(!cluster.is_stack(Stalled));
    cluster.runs_succeed = true;
    wait_until_deleted(&mut cluster);
}

#[test]
fn never_run_stack_can_be_deleted() {
    let mut cluster = new(&json!({}));
    cluster.revision = None;
    until(&mut cluster, "stalled", |cluster| cluster.is_stack(Stalled));
    cluster.delete_stack();
    wait_until_deleted(&mut cluster);
    assert_eq!(cluster.log, []);
}

#[test]
fn runtime_and_agent_faults_pass() {
    let mut cluster = new(&json!({}));
    let (runtime, version) = (cluster.runtime.clone(), cluster.version.clone());
    cluster.runtime = RuntimeState::Failed("no memory".into());
    cluster.version = Err(AgentError::Unreachable("no route".into()));
    for _ in 0..5 {
        reconcile_round(&mut cluster).unwrap();
        cluster.advance(60);
    }
    cluster.runtime = runtime;
    for _ in 0..5 {
        reconcile_round(&mut cluster).unwrap();
        cluster.advance(60);
    }
    cluster.version = version;
    cluster.setup = SetupState::Failed {
        stage: SetupStage::Installing,
        message: "no registry".into(),
        is_transient: false,
        retry_in: std::time::Duration::from_mins(1),
    };
    until(&mut cluster, "stalled", |cluster| cluster.is_stack(Stalled));
    cluster.setup = SetupState::Done;
    wait_until_ready(&mut cluster);
    assert_eq!(cluster.log, [Up]);
}
