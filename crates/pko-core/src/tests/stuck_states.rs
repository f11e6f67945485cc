//! States in which upstream's operator stays stuck, runs too often or loses a result. The numbers
//! are those of its known weaknesses and of its users' wishes.
//!
//! Tests with an API server cover undecodable objects beside valid ones (weakness 1), deleted
//! objects in caches (8), runs that outlive the manager (wish 2), locks of killed processes (wish
//! 5, its other half) and pending operations (wish 8).

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
    stack_lifecycle::{new, reconcile_round, settle, until, wait_until_deleted, wait_until_ready},
};
use crate::{
    condition_set::find,
    stack::{Refusal, SourceError},
};

fn status(cluster: &SimulatedCluster) -> StackStatus {
    cluster.stack.as_ref().unwrap().status.clone().unwrap()
}

/// Reason and message of why the Stack is not ready.
fn reported(cluster: &SimulatedCluster) -> (String, String) {
    let status = status(cluster);
    let kinds = [Stalled, Reconciling];
    let mut conditions = kinds
        .iter()
        .filter_map(|kind| find(&status.conditions, *kind));
    let condition = conditions.next().unwrap();
    (condition.reason.clone(), condition.message.clone())
}

fn only_update(cluster: &SimulatedCluster) -> String {
    assert_eq!(cluster.updates.len(), 1);
    cluster.updates.keys().next().cloned().unwrap()
}

/// Reconciles everything but the Stack until the run has ended.
fn run_to_unobserved_end(cluster: &mut SimulatedCluster) -> String {
    until(cluster, "started", |cluster| !cluster.log.is_empty());
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
    assert!(
        cluster.updates.contains_key(&name),
        "its finalizer keeps it"
    );
    wait_until_ready(&mut cluster);
    assert_eq!(cluster.log, [Up], "nothing runs again");
    assert!(!cluster.updates.contains_key(&name), "it is released");
}

/// Weakness 2, 3.12 and wish 1: `currentUpdate` names an Update that no longer exists.
#[test]
fn complete_update_that_vanished_is_created_again() {
    let mut cluster = new(&json!({}));
    run_to_unobserved_end(&mut cluster);
    cluster.updates.clear();
    wait_until_ready(&mut cluster);
    assert_eq!(cluster.log, [Up, Up]);
}

/// Weakness 2, 3.12 and wish 1: the manager crashes between naming and creating the Update.
#[test]
fn crash_between_update_name_and_creation_is_recovered() {
    let mut cluster = new(&json!({}));
    for writes in 0.. {
        let mut crashing = cluster.clone();
        crashing.writes_left = Some(writes);
        let crashed = (0..4).any(|_| reconcile_round(&mut crashing).is_err());
        let stack = crashing.stack.as_ref().unwrap();
        let current = stack
            .status
            .as_ref()
            .and_then(|status| status.current_update.clone());
        if current.is_some() && crashing.updates.is_empty() {
            assert!(crashed);
            cluster = crashing;
            break;
        }
    }
    cluster.writes_left = None;
    wait_until_ready(&mut cluster);
    assert_eq!(cluster.log, [Up]);
}

/// 3.12 and wish 1: upstream ignores even a request if the Update is gone.
#[test]
fn request_is_served_after_vanished_update() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
    cluster.updates.clear();
    cluster.request("please");
    wait_until_ready(&mut cluster);
}

/// Weakness 3: after four attempts upstream reconciles every second, but never retries.
#[test]
fn failing_destroy_is_retried_with_backoff() {
    let mut cluster = new(&json!({}));
    wait_until_ready(&mut cluster);
    cluster.runs_succeed = false;
    cluster.delete_stack();
    let mut pauses = Vec::new();
    for tries in 1..7 {
        let since = cluster.now;
        until(&mut cluster, "retried", |cluster| cluster.log.len() > tries);
        pauses.push(cluster.now.duration_since(since));
    }
    assert!(pauses.is_sorted(), "{pauses:?}");
    assert!(pauses.last() > pauses.get(2), "{pauses:?}");
    cluster.runs_succeed = true;
    wait_until_deleted(&mut cluster);
}

/// Weakness 4: upstream's `SpecInvalid` for a missing Secret stays after the Secret was created.
#[test]
fn missing_reference_is_rechecked() {
    let mut cluster = new(&json!({}));
    let problem = "the Secret \"git\" does not exist".to_owned();
    cluster.faults.source = Some(SourceError::Invalid(problem.clone()));
    until(&mut cluster, "stalled", |cluster| cluster.is_stack(Stalled));
    assert_eq!(reported(&cluster), ("SpecInvalid".to_owned(), problem));
    cluster.faults.source = None;
    // No event wakes it: `until` advances the time to its deadline.
    wait_until_ready(&mut cluster);
}

/// Weakness 5: upstream reports nothing if the API server rejects a write.
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
            wait_until_ready(&mut cluster);
            assert_eq!(cluster.log, [Up], "{name}");
        }
    }
}

/// Weakness 6: upstream sets no observed generation if a Stack stalls in its first pass.
#[test]
fn stall_at_first_reconcile_has_observed_generation() {
    let mut cluster = new(&json!({ "envRefs": { "A": { "type": "Env" } } }));
    until(&mut cluster, "stalled", |cluster| cluster.is_stack(Stalled));
    let stack = cluster.stack.as_ref().unwrap();
    assert_eq!(stack.metadata.generation, Some(1), "the spec is the user's");
    assert_eq!(status(&cluster).observed_generation, Some(1));
}

/// Weakness 7: upstream creates a second Update if it reconciles a stale Stack.
#[test]
fn stale_stack_creates_no_second_update() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
    cluster.stale_stack.clone_from(&cluster.stack);
    cluster.edit(|stack| drop(stack.spec.config.insert("key".into(), json!(1))));
    reconcile_round(&mut cluster).unwrap();
    let name = only_update(&cluster);
    assert_eq!(status(&cluster).current_update.unwrap().name, Some(name));
    cluster.stale_stack = None;
    wait_until_ready(&mut cluster);
    assert_eq!(cluster.log, [Up, Up], "one for each generation");
}

/// Weakness 7: a stale Update only delays the Stack.
#[test]
fn stale_update_only_delays() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
    cluster.faults.old_updates.clone_from(&cluster.updates);
    for _ in 0..5 {
        reconcile_round(&mut cluster).unwrap();
        cluster.advance(60);
    }
    assert!(!cluster.is_stack(Ready));
    cluster.faults.old_updates.clear();
    wait_until_ready(&mut cluster);
    assert_eq!(cluster.log, [Up]);
}

/// Weakness 9: upstream replaces known outputs if the Secret is missing.
#[test]
fn missing_outputs_leave_the_previous_ones() {
    let mut cluster = new(&json!({}));
    wait_until_ready(&mut cluster);
    let before = status(&cluster).outputs;
    assert!(before.as_ref().is_some_and(|outputs| !outputs.is_empty()));
    cluster.request("again");
    until(&mut cluster, "started", |cluster| cluster.log.len() == 2);
    let name = status(&cluster).current_update.unwrap().name.unwrap();
    for _ in 0..3 {
        cluster.advance(60);
        invariants::update(&mut cluster, &name).unwrap();
    }
    cluster.outputs.clear();
    until(&mut cluster, "ready", |cluster| cluster.is_stack(Ready));
    assert_eq!(status(&cluster).outputs, before);
}

/// Weakness 10: upstream loses a result if a later step of the pass is slow or fails.
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

/// Wish 3: upstream skips the destroy of a Stack that was changed to preview.
#[test]
fn stack_turned_preview_destroys_earlier_resources() {
    let mut cluster = new(&json!({}));
    wait_until_ready(&mut cluster);
    cluster.edit(|stack| stack.spec.preview = Some(true));
    until(&mut cluster, "previewed", |cluster| cluster.log.len() == 2);
    cluster.delete_stack();
    wait_until_deleted(&mut cluster);
    assert_eq!(cluster.log.last(), Some(&Destroy));
    assert!(!cluster.has_resources);
}

/// Wish 3: upstream removes the finalizer although the destroy failed.
#[test]
fn failed_destroy_keeps_finalizer() {
    let mut cluster = new(&json!({}));
    wait_until_ready(&mut cluster);
    cluster.runs_succeed = false;
    cluster.delete_stack();
    until(&mut cluster, "attempted three times", |cluster| {
        cluster.log.len() == 4
    });
    settle(&mut cluster);
    assert!(cluster.stack.is_some() && cluster.has_resources);
    assert!(!reported(&cluster).1.is_empty());
}

/// Wish 5: upstream counts a lock as three failures and gives up.
#[test]
fn locked_stack_is_retried_until_free() {
    for (again, reason) in [(false, "UpdateConflict"), (true, "RetryingAfterFailure")] {
        let mut cluster = new(&json!({
            "retryOnUpdateConflict": again, "retryMaxBackoffDurationSeconds": 900,
        }));
        cluster.runs_succeed = false;
        cluster.faults.class = Some(FailureClass::Conflict);
        for tries in 1..5 {
            until(&mut cluster, "retried", |cluster| {
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
        wait_until_ready(&mut cluster);
    }
}

/// Wish 6: after an outage of two minutes upstream retries only when spec or source change.
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
        until(&mut cluster, "attempted six times", |cluster| {
            cluster.log.len() == 6
        });
        cluster.runs_succeed = true;
        wait_until_ready(&mut cluster);
        assert_eq!(
            cluster.log,
            vec![Up; 7],
            "{class:?}: neither spec nor source changed"
        );
    }
}

/// Wish 5: with upstream, the lock of a killed pod stays until a user runs `pulumi cancel`.
#[test]
fn lock_of_lost_run_is_removed() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
    cluster.advance(7);
    cluster.kill_pod();
    wait_until_ready(&mut cluster);
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

/// Wish 5: a lock that is not proven to be ours stays, with or without a lost run.
#[test]
fn foreign_lock_stays_and_is_reported() {
    for lost in [false, true] {
        let mut cluster = new(&json!({}));
        if lost {
            until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
            cluster.kill_pod();
        }
        let foreign = cluster.now - SignedDuration::from_hours(1);
        cluster.stale_lock = Some(foreign);
        until(&mut cluster, "stalled", |cluster| cluster.is_stack(Stalled));
        let (reason, message) = reported(&cluster);
        assert_eq!(reason, "UpdateConflict");
        assert!(message.contains("locked by 1 lock(s)"), "{message}");
        assert_eq!(cluster.stale_lock, Some(foreign));
        cluster.stale_lock = None;
        wait_until_ready(&mut cluster);
    }
}

/// Found by a walk: the response to the creation of an Update was lost in a pass that had recorded
/// the previous one. The effects of that pass must not remove the name of the new Update, which
/// would run beside the next.
#[test]
fn update_with_lost_create_response_is_found() {
    let mut cluster = new(&json!({}));
    run_to_unobserved_end(&mut cluster);
    cluster.request("again");
    cluster.faults.creation = Creation::ResponseLost;
    reconcile_round(&mut cluster).unwrap();
    let current = status(&cluster).current_update.unwrap().name.unwrap();
    assert!(cluster.updates.contains_key(&current));
    cluster.faults.creation = Creation::Works;
    cluster.delete_stack();
    wait_until_deleted(&mut cluster);
    assert_eq!(cluster.log, [Up, Up, Destroy], "one after the other");
    assert!(!cluster.has_resources);
}

/// Found by a walk: a Stack whose finalizer was removed by hand, as the message about a terminating
/// namespace suggests, left an Update that could not be deleted, and neither could its namespace.
#[test]
fn update_of_stack_without_finalizer_is_released() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
    cluster.delete_stack();
    cluster.remove_finalizer();
    assert_eq!(cluster.stack, None);
    until(&mut cluster, "cleaned up", |cluster| {
        cluster.updates.is_empty()
    });
}

/// Found by a walk: the same while the garbage collector keeps the Stack until the Update is
/// deleted, and the Update was kept until the Stack had recorded it.
#[test]
fn update_of_foreground_deleted_stack_is_released() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
    cluster.delete_stack_in_foreground();
    cluster.remove_finalizer();
    assert!(cluster.stack.is_some(), "the garbage collector keeps it");
    wait_until_deleted(&mut cluster);
}

/// Found by a walk: the Workspace that is created during a foreground deletion has no owner, and
/// stayed after the garbage collector had removed its finalizer.
#[test]
fn workspace_of_foreground_delete_is_removed() {
    let mut cluster = new(&json!({}));
    until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
    let name = only_update(&cluster);
    let update = cluster.updates.get_mut(&name).unwrap();
    let finalizers = update.metadata.finalizers.get_or_insert_default();
    finalizers.push("example.com/hold".to_owned());
    cluster.delete_stack_in_foreground();
    until(&mut cluster, "destroying", |cluster| cluster.log.len() == 2);
    cluster.updates.remove(&name);
    wait_until_deleted(&mut cluster);
    assert_eq!(cluster.log, [Up, Destroy]);
    assert_eq!(cluster.workspace, None);
}

/// Found by a walk: the same, and a user removes our finalizer during the destroy.
#[test]
fn orphaned_workspace_of_foreground_delete_is_removed() {
    for is_gone in [true, false] {
        let mut cluster = new(&json!({}));
        until(&mut cluster, "started", |cluster| !cluster.log.is_empty());
        let name = only_update(&cluster);
        let update = cluster.updates.get_mut(&name).unwrap();
        let finalizers = update.metadata.finalizers.get_or_insert_default();
        finalizers.push("example.com/hold".to_owned());
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
        assert!(
            cluster.workspace.is_some(),
            "the garbage collector has not deleted it"
        );
        until(&mut cluster, "cleaned up", |cluster| {
            cluster.workspace.is_none()
        });
    }
}
