//! Where upstream's operator stays stuck, runs too often or forgets, by the weakness that it is:
//! none of it happens here.
//!
//! What needs an API server has its test there: objects that do not decode beside good ones
//! (weakness 1), ghosts of what is gone (8), runs that outlive the manager (wish 2), locks of the
//! dead (wish 5, its other half) and pending operations (wish 8).

use jiff::SignedDuration;
use pko_api::{
    auto::v1alpha1::OperationType::{Destroy, Up},
    names::{
        conditions::ConditionType::{Complete, Ready, Reconciling, Stalled},
        failures::FailureClass,
    },
    pulumi::v1::StackStatus,
};
use serde_json::json;

use super::{
    invariants,
    simulated_cluster::{Creation, SimulatedCluster},
    stack_lifecycle::{gone, new, quiet, ready, reconcile_round, until},
};
use crate::{
    condition_set::find,
    stack::{Refusal, SourceError},
};

fn status(cluster: &SimulatedCluster) -> StackStatus {
    cluster.stack.as_ref().unwrap().status.clone().unwrap()
}

/// What the Stack says of why it is not ready.
fn reported(cluster: &SimulatedCluster) -> (String, String) {
    let status = status(cluster);
    let kinds = [Stalled, Reconciling];
    let mut said = kinds
        .iter()
        .filter_map(|kind| find(&status.conditions, *kind));
    let condition = said.next().unwrap();
    (condition.reason.clone(), condition.message.clone())
}

fn only_update(cluster: &SimulatedCluster) -> String {
    assert_eq!(cluster.updates.len(), 1);
    cluster.updates.keys().next().cloned().unwrap()
}

/// Everything but the Stack is looked at until the run has ended, and the Stack has not seen it.
fn run_to_unobserved_end(cluster: &mut SimulatedCluster) -> String {
    until(cluster, "begun", |cluster| !cluster.log.is_empty());
    let name = only_update(cluster);
    for _ in 0..3 {
        cluster.advance(60);
        invariants::update(cluster, &name).unwrap();
    }
    assert!(status(cluster).current_update.is_some());
    name
}

/// Weakness 2, and 3.12: the Update was complete, and was deleted before the Stack had recorded
/// that.
#[test]
fn complete_update_deleted_early_is_recorded() {
    let mut cluster = new(&json!({}));
    let name = run_to_unobserved_end(&mut cluster);
    cluster.delete_update(&name);
    assert!(cluster.updates.contains_key(&name), "it is held");
    ready(&mut cluster);
    assert_eq!(cluster.log, [Up], "nothing is run again");
    assert!(!cluster.updates.contains_key(&name), "nor stays it");
}

/// Weakness 2, 3.12 and wish 1: `currentUpdate` names an Update that there is not any more.
#[test]
fn complete_update_that_vanished_is_created_again() {
    let mut cluster = new(&json!({}));
    run_to_unobserved_end(&mut cluster);
    cluster.updates.clear();
    ready(&mut cluster);
    assert_eq!(cluster.log, [Up, Up]);
}

/// Weakness 2, 3.12 and wish 1: the manager died after it had named the Update and before it had
/// made it.
#[test]
fn crash_between_update_name_and_creation_is_recovered() {
    let mut cluster = new(&json!({}));
    for writes in 0.. {
        let mut dying = cluster.clone();
        dying.writes_left = Some(writes);
        let died = (0..4).any(|_| reconcile_round(&mut dying).is_err());
        let stack = dying.stack.as_ref().unwrap();
        let current = stack
            .status
            .as_ref()
            .and_then(|status| status.current_update.clone());
        if current.is_some() && dying.updates.is_empty() {
            assert!(died);
            cluster = dying;
            break;
        }
    }
    cluster.writes_left = None;
    ready(&mut cluster);
    assert_eq!(cluster.log, [Up]);
}

/// 3.12 and wish 1: not even a request helps a Stack of upstream's whose Update is gone.
#[test]
fn request_is_served_after_vanished_update() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "begun", |cluster| !cluster.log.is_empty());
    cluster.updates.clear();
    cluster.request("please");
    ready(&mut cluster);
}

/// Weakness 3: after four attempts upstream looks each second, and never tries again.
#[test]
fn failing_destroy_is_retried_with_backoff() {
    let mut cluster = new(&json!({}));
    ready(&mut cluster);
    cluster.runs_succeed = false;
    cluster.delete_stack();
    let mut pauses = Vec::new();
    for tries in 1..7 {
        let since = cluster.now;
        until(&mut cluster, "tried again", |cluster| {
            cluster.log.len() > tries
        });
        pauses.push(cluster.now.duration_since(since));
    }
    assert!(pauses.is_sorted(), "{pauses:?}");
    assert!(pauses.last() > pauses.get(2), "{pauses:?}");
    cluster.runs_succeed = true;
    gone(&mut cluster);
}

/// Weakness 4: a Secret that is missing is upstream's `SpecInvalid`, and stays that after it was
/// made.
#[test]
fn missing_reference_is_rechecked() {
    let mut cluster = new(&json!({}));
    let problem = "the Secret \"git\" does not exist".to_owned();
    cluster.faults.source = Some(SourceError::Invalid(problem.clone()));
    until(&mut cluster, "stalled", |cluster| cluster.is_stack(Stalled));
    assert_eq!(reported(&cluster), ("SpecInvalid".to_owned(), problem));
    cluster.faults.source = None;
    // Nobody wakes it: `until` lets time pass until it wants to look itself.
    ready(&mut cluster);
}

/// Weakness 5: what the API server does not take leaves upstream's Stack without a word.
#[test]
fn rejected_write_is_in_condition_and_retried() {
    for (name, refusal) in [
        ("invalid", Refusal::Invalid("env: A twice".to_owned())),
        ("failed", Refusal::Failed("etcd is full".to_owned())),
    ] {
        for is_update in [false, true] {
            let mut cluster = new(&json!({}));
            if is_update {
                cluster.faults.creation = Creation::Refused(refusal.clone());
            } else {
                cluster.refusal = Some(refusal.clone());
            }
            for _ in 0..6 {
                reconcile_round(&mut cluster).unwrap();
                cluster.advance(60);
            }
            let (_, message) = reported(&cluster);
            let expected = if name == "invalid" {
                "env: A twice"
            } else {
                "etcd is full"
            };
            assert!(message.contains(expected), "{name}: {message}");
            cluster.refusal = None;
            cluster.faults.creation = Creation::Works;
            ready(&mut cluster);
            assert_eq!(cluster.log, [Up], "{name}");
        }
    }
}

/// Weakness 6: a Stack that stalls on first contact never says which generation that is about.
#[test]
fn stall_at_first_reconcile_has_observed_generation() {
    let mut cluster = new(&json!({ "envRefs": { "A": { "type": "Env" } } }));
    until(&mut cluster, "stalled", |cluster| cluster.is_stack(Stalled));
    let stack = cluster.stack.as_ref().unwrap();
    assert_eq!(stack.metadata.generation, Some(1), "the spec is the user's");
    assert_eq!(status(&cluster).observed_generation, Some(1));
}

/// Weakness 7: a pass on an old copy forgets the Update that is under way, and makes a second one.
#[test]
fn stale_stack_creates_no_second_update() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "begun", |cluster| !cluster.log.is_empty());
    cluster.stale_stack.clone_from(&cluster.stack);
    cluster.edit(|stack| drop(stack.spec.config.insert("key".into(), json!(1))));
    reconcile_round(&mut cluster).unwrap();
    let name = only_update(&cluster);
    assert_eq!(status(&cluster).current_update.unwrap().name, Some(name));
    cluster.stale_stack = None;
    ready(&mut cluster);
    assert_eq!(cluster.log, [Up, Up], "one for each generation");
}

/// Weakness 7: an Update that a cache shows as it was long ago is waited for, not run again.
#[test]
fn stale_update_only_delays() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "begun", |cluster| !cluster.log.is_empty());
    cluster.faults.old_updates.clone_from(&cluster.updates);
    for _ in 0..5 {
        reconcile_round(&mut cluster).unwrap();
        cluster.advance(60);
    }
    assert!(!cluster.is_stack(Ready));
    cluster.faults.old_updates.clear();
    ready(&mut cluster);
    assert_eq!(cluster.log, [Up]);
}

/// Weakness 9: outputs that are not found replace those that were known.
#[test]
fn outputs_that_are_not_found_leave_those_of_before() {
    let mut cluster = new(&json!({}));
    ready(&mut cluster);
    let before = status(&cluster).outputs;
    assert!(before.as_ref().is_some_and(|outputs| !outputs.is_empty()));
    cluster.request("again");
    until(&mut cluster, "begun", |cluster| cluster.log.len() == 2);
    let name = status(&cluster).current_update.unwrap().name.unwrap();
    for _ in 0..3 {
        cluster.advance(60);
        invariants::update(&mut cluster, &name).unwrap();
    }
    cluster.outputs.clear();
    until(&mut cluster, "ready", |cluster| cluster.is_stack(Ready));
    assert_eq!(status(&cluster).outputs, before);
}

/// Weakness 10: a result that was seen is lost when what follows it takes long or fails.
#[test]
fn result_is_recorded_while_source_is_unavailable() {
    let mut cluster = new(&json!({}));
    run_to_unobserved_end(&mut cluster);
    cluster.faults.source = Some(SourceError::Unavailable("the Program is gone".to_owned()));
    reconcile_round(&mut cluster).unwrap();
    let status = status(&cluster);
    assert_eq!(status.current_update, None);
    assert_eq!(
        status
            .last_update
            .unwrap()
            .last_successful_commit
            .as_deref(),
        Some("1")
    );
    assert!(status.outputs.is_some());
}

/// Wish 3: a destroy is skipped because the Stack only shows what would change by now.
#[test]
fn stack_turned_preview_destroys_earlier_resources() {
    let mut cluster = new(&json!({}));
    ready(&mut cluster);
    cluster.edit(|stack| stack.spec.preview = Some(true));
    until(&mut cluster, "previewed", |cluster| cluster.log.len() == 2);
    cluster.delete_stack();
    gone(&mut cluster);
    assert_eq!(cluster.log.last(), Some(&Destroy));
    assert!(!cluster.has_resources);
}

/// Wish 3: the finalizer goes although the destroy failed.
#[test]
fn failed_destroy_keeps_finalizer() {
    let mut cluster = new(&json!({}));
    ready(&mut cluster);
    cluster.runs_succeed = false;
    cluster.delete_stack();
    until(&mut cluster, "tried three times", |cluster| {
        cluster.log.len() == 4
    });
    quiet(&mut cluster);
    assert!(cluster.stack.is_some() && cluster.has_resources);
    assert!(!reported(&cluster).1.is_empty());
}

/// Wish 5: a lock that somebody else holds counts as three failures, and that was it.
#[test]
fn locked_stack_is_retried_until_free() {
    for (again, reason) in [(false, "UpdateConflict"), (true, "RetryingAfterFailure")] {
        let mut cluster = new(&json!({
            "retryOnUpdateConflict": again, "retryMaxBackoffDurationSeconds": 900,
        }));
        cluster.runs_succeed = false;
        cluster.faults.class = Some(FailureClass::Conflict);
        for tries in 1..5 {
            until(&mut cluster, "tried again", |cluster| {
                cluster.log.len() == tries
            });
        }
        until(&mut cluster, "recorded", |cluster| {
            status(cluster).current_update.is_none()
        });
        assert_eq!(reported(&cluster).0, reason);
        assert_eq!(
            status(&cluster).last_update.unwrap().failures,
            None,
            "none counts"
        );
        cluster.runs_succeed = true;
        ready(&mut cluster);
    }
}

/// Wish 6: an outage of two minutes freezes a Stack until its spec or source changes.
#[test]
fn outage_stalls_no_stack_forever() {
    for class in [
        Some(FailureClass::Transient),
        Some(FailureClass::Interrupted),
        None,
    ] {
        let mut cluster = new(&json!({}));
        cluster.runs_succeed = false;
        cluster.faults.class = class;
        until(&mut cluster, "tried six times", |cluster| {
            cluster.log.len() == 6
        });
        cluster.runs_succeed = true;
        ready(&mut cluster);
        assert_eq!(
            cluster.log,
            vec![Up; 7],
            "{class:?}: neither spec nor source changed"
        );
    }
}

/// Wish 5: a pod is killed in the midst of a run, and the lock that it held stays until somebody
/// types `pulumi cancel`.
#[test]
fn lock_of_lost_run_is_removed() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "begun", |cluster| !cluster.log.is_empty());
    cluster.advance(7);
    cluster.kill_pod();
    ready(&mut cluster);
    assert_eq!(cluster.log, [Up, Up]);
    assert_eq!(cluster.stale_lock, None);
    let last = status(&cluster).last_update.unwrap();
    assert_eq!(
        (last.failures, last.retries),
        (None, None),
        "nothing counts"
    );
    let update = cluster.updates.get(&last.name.unwrap()).unwrap();
    let conditions = &update.status.as_ref().unwrap().conditions;
    let message = &find(conditions, Complete).unwrap().message;
    assert!(
        message.starts_with("removed the lock that run "),
        "{message}"
    );
}

/// Wish 5: a lock that is not proven to be ours stays, whoever was lost before or after it.
#[test]
fn foreign_lock_stays_and_is_reported() {
    for lost in [false, true] {
        let mut cluster = new(&json!({}));
        if lost {
            until(&mut cluster, "begun", |cluster| !cluster.log.is_empty());
            cluster.kill_pod();
        }
        let foreign = cluster.now - SignedDuration::from_hours(1);
        cluster.stale_lock = Some(foreign);
        until(&mut cluster, "told", |cluster| cluster.is_stack(Stalled));
        let (reason, message) = reported(&cluster);
        assert_eq!(reason, "UpdateConflict");
        assert!(message.contains("locked by 1 lock(s)"), "{message}");
        assert_eq!(cluster.stale_lock, Some(foreign));
        cluster.stale_lock = None;
        ready(&mut cluster);
    }
}

/// Found by a walk: the answer to the creation of an Update was lost in a pass that had recorded
/// the one before. What was kept of that pass must not take back the name of the new one: it would
/// run beside the next.
#[test]
fn update_with_lost_create_response_is_found() {
    let mut cluster = new(&json!({}));
    run_to_unobserved_end(&mut cluster);
    cluster.request("again");
    cluster.faults.creation = Creation::AnswerLost;
    reconcile_round(&mut cluster).unwrap();
    let current = status(&cluster).current_update.unwrap().name.unwrap();
    assert!(cluster.updates.contains_key(&current));
    cluster.faults.creation = Creation::Works;
    cluster.delete_stack();
    gone(&mut cluster);
    assert_eq!(cluster.log, [Up, Up, Destroy], "one after the other");
    assert!(!cluster.has_resources);
}

/// Found by a walk: whoever lets a Stack go by hand, as the message about a terminating namespace
/// says, left an Update behind that nobody could delete, and the namespace with it.
#[test]
fn update_of_stack_without_finalizer_is_released() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "begun", |cluster| !cluster.log.is_empty());
    cluster.delete_stack();
    cluster.remove_finalizer();
    assert_eq!(cluster.stack, None);
    until(&mut cluster, "cleaned up", |cluster| {
        cluster.updates.is_empty()
    });
}

/// Found by a walk: the same while the garbage collector holds the Stack until the Update is gone,
/// and the Update was held until the Stack had recorded it.
#[test]
fn update_of_foreground_deleted_stack_is_released() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "begun", |cluster| !cluster.log.is_empty());
    cluster.delete_stack_in_foreground();
    cluster.remove_finalizer();
    assert!(cluster.stack.is_some(), "the garbage collector holds it");
    gone(&mut cluster);
}

/// Found by a walk: the Workspace that is made during a deletion in the foreground is nobody's, and
/// stayed once the garbage collector had let the Stack go.
#[test]
fn workspace_of_foreground_delete_is_removed() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "begun", |cluster| !cluster.log.is_empty());
    let name = only_update(&cluster);
    let update = cluster.updates.get_mut(&name).unwrap();
    let finalizers = update.metadata.finalizers.get_or_insert_default();
    finalizers.push("somebody".to_owned());
    cluster.delete_stack_in_foreground();
    until(&mut cluster, "destroying", |cluster| cluster.log.len() == 2);
    cluster.updates.remove(&name);
    gone(&mut cluster);
    assert_eq!(cluster.log, [Up, Destroy]);
    assert_eq!(cluster.workspace, None);
}

/// Found by a walk: the same, and the user lets the Stack go by hand in the midst of its destroy.
#[test]
fn orphaned_workspace_of_foreground_delete_is_removed() {
    for is_gone in [true, false] {
        let mut cluster = new(&json!({}));
        until(&mut cluster, "begun", |cluster| !cluster.log.is_empty());
        let name = only_update(&cluster);
        let update = cluster.updates.get_mut(&name).unwrap();
        let finalizers = update.metadata.finalizers.get_or_insert_default();
        finalizers.push("somebody".to_owned());
        cluster.delete_stack_in_foreground();
        until(&mut cluster, "destroying", |cluster| cluster.log.len() == 2);
        let owners = |cluster: &SimulatedCluster| {
            let workspace = cluster.workspace.as_ref().unwrap();
            workspace.metadata.owner_references.clone()
        };
        assert_eq!(owners(&cluster), None);
        if is_gone {
            cluster.updates.remove(&name);
        }
        cluster.remove_finalizer();
        assert_eq!(cluster.stack.is_none(), is_gone);
        assert!(cluster.workspace.is_some(), "nobody has taken it away");
        until(&mut cluster, "cleaned up", |cluster| {
            cluster.workspace.is_none()
        });
    }
}
