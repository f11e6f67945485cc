//! What holds after every pass over an object, in any state.

use pko_api::{
    Stack, Update, Workspace,
    auto::v1alpha1::OperationType,
    names::conditions::ConditionType::{self, Complete, Ready, Reconciling, Stalled},
    pulumi::v1::{LastUpdate, UpdateState},
};

use super::simulated_cluster::{Crashed, Creation, NO_RESPONSE, Reconciliation, SimulatedCluster};
use crate::{
    Plan, Requeue, condition_set::is_true, stack, step::SHORTEST_REQUEUE, update, workspace,
};

/// Reconciles the Stack and checks the invariants.
pub(super) fn stack(
    cluster: &mut SimulatedCluster,
) -> Result<Option<Reconciliation<stack::StackEffect>>, Crashed> {
    let Some(live) = cluster.stack.clone() else {
        return Ok(None);
    };
    let is_behind = cluster.stale_stack.is_some();
    let before = cluster.stale_stack.clone().unwrap_or(live);
    let has_resources = cluster.has_resources;
    let writes = cluster.writes;
    let Some(pass) = cluster.reconcile_stack()? else {
        return Ok(None);
    };
    each_request_is_made_once(&pass);
    stack_writes_are_bounded(pass.write_requests, &pass.plan);
    no_requeue_is_at_once(&pass);
    deleting_stack_requests_no_up(&before, &pass);
    update_is_a_destroy_exactly_if_deleting(&before, &pass);
    update_is_named_before_it_is_created(&pass);
    events_come_last(&pass, |effect| {
        matches!(effect, stack::StackEffect::Emit(_))
    });
    success_is_repeated_only_for_a_trigger(&before, &pass);
    if let Some(after) = &cluster.stack {
        one_condition_is_true(after, &pass);
        reconciling_stack_has_a_deadline(after, &pass);
        each_condition_has_a_message(after);
    }
    if pass
        .plan
        .effects
        .contains(&stack::StackEffect::RemoveFinalizer)
    {
        no_destroy_is_missing(&before, &pass);
        no_resources_are_left(&before, has_resources, &pass);
    }
    // A pass that saw stale objects, or could not do everything, may be followed by another one.
    let requests_prerequisite = |effect: &stack::StackEffect| {
        matches!(effect, stack::StackEffect::RequestPrerequisite { .. })
    };
    let is_complete = !is_behind
        && cluster.faults.creation == Creation::Works
        && !pass.plan.effects.iter().any(requests_prerequisite);
    if cluster.writes != writes && is_complete {
        stack_is_stable(without_crash(cluster), &pass)?;
    }
    Ok(Some(pass))
}

fn stack_is_stable(
    mut calm: SimulatedCluster,
    pass: &Reconciliation<stack::StackEffect>,
) -> Result<(), Crashed> {
    // After adoption the next pass continues with the next rule.
    if pass.plan.rule == "adopt" {
        calm.reconcile_stack()?;
    }
    let settled = calm.stack.clone();
    let requests = calm.requests.clone();
    if let Some(second) = calm.reconcile_stack()? {
        // The other Stack gets its request only after this pass.
        let effects = second.plan.effects.iter();
        let new: Vec<_> = effects
            .filter(|effect| !is_requested(&requests, effect))
            .collect();
        assert_eq!(new, Vec::<&stack::StackEffect>::new(), "after {pass:#?}");
        assert_eq!(calm.stack, settled, "after {pass:#?}");
    }
    Ok(())
}

fn is_requested(requests: &[(String, String)], effect: &stack::StackEffect) -> bool {
    let stack::StackEffect::RequestPrerequisite { stack, value } = effect else {
        return false;
    };
    let name = stack.metadata.name.clone().unwrap_or_default();
    requests.contains(&(name, value.clone()))
}

/// The same cluster without a planned crash.
fn without_crash(cluster: &SimulatedCluster) -> SimulatedCluster {
    SimulatedCluster {
        writes_left: None,
        ..cluster.clone()
    }
}

/// Reconciles an Update and checks the invariants.
pub(super) fn update(
    cluster: &mut SimulatedCluster,
    name: &str,
) -> Result<Option<Reconciliation<update::UpdateEffect>>, Crashed> {
    let writes = cluster.writes;
    let Some(pass) = cluster.reconcile_update(name)? else {
        return Ok(None);
    };
    each_request_is_made_once(&pass);
    writes_are_bounded(UPDATE_BOUNDS, pass.write_requests, &pass.plan, |_| false);
    no_requeue_is_at_once(&pass);
    events_come_last(&pass, |effect| {
        matches!(
            effect,
            update::UpdateEffect::Emit(_) | update::UpdateEffect::EmitWorkspaceWarning(_)
        )
    });
    each_run_is_started_once(cluster);
    if let Some(after) = cluster.updates.get(name) {
        let is_complete = has(after, Complete);
        assert!(
            is_complete || matches!(pass.plan.requeue, Requeue::After(_)),
            "no deadline: {pass:#?}"
        );
    }
    let adopts = |effect: &update::UpdateEffect| matches!(effect, update::UpdateEffect::Adopt(_));
    if pass.plan.effects.iter().any(adopts) {
        // The next pass continues with the Workspace as owner.
        return update(cluster, name);
    }
    // The next pass of a running Update polls it again.
    let running = pass.plan.effects.contains(&update::UpdateEffect::WatchRun);
    if cluster.writes != writes && !running {
        let mut calm = without_crash(cluster);
        if let Some(mut second) = calm.reconcile_update(name)? {
            if second.plan.effects == [update::UpdateEffect::RemoveFinalizer] {
                // The Update is complete and nothing waits for it: this is its last effect.
                return Ok(Some(pass));
            }
            // A repeated release has no effect.
            let is_release =
                |effect: &update::UpdateEffect| *effect == update::UpdateEffect::ReleaseAdmission;
            second.plan.effects.retain(|effect| !is_release(effect));
            assert_eq!(second.plan.effects, [], "after {pass:#?}");
            assert_eq!(calm.updates, cluster.updates, "after {pass:#?}");
        }
    }
    Ok(Some(pass))
}

/// Reconciles the Workspace and checks the invariants.
pub(super) fn workspace(
    cluster: &mut SimulatedCluster,
) -> Result<Option<Reconciliation<workspace::WorkspaceEffect>>, Crashed> {
    let writes = cluster.writes;
    let Some(pass) = cluster.reconcile_workspace()? else {
        return Ok(None);
    };
    each_request_is_made_once(&pass);
    writes_are_bounded(WORKSPACE_BOUNDS, pass.write_requests, &pass.plan, |_| false);
    no_requeue_is_at_once(&pass);
    events_come_last(&pass, |effect| {
        matches!(effect, workspace::WorkspaceEffect::Emit(_))
    });
    let Some(after) = cluster.workspace.clone() else {
        return Ok(Some(pass));
    };
    let is_settled =
        is(&after, Ready) || is(&after, Stalled) || after.metadata.deletion_timestamp.is_some();
    assert!(
        is_settled || matches!(pass.plan.requeue, Requeue::After(_)),
        "no deadline: {pass:#?}"
    );
    assert!(!(is(&after, Ready) && is(&after, Stalled)), "{after:?}");
    if cluster.writes != writes {
        let mut calm = without_crash(cluster);
        if let Some(second) = calm.reconcile_workspace()? {
            assert_eq!(second.plan.effects, [], "after {pass:#?}");
            assert_eq!(calm.workspace, cluster.workspace, "after {pass:#?}");
        }
    }
    Ok(Some(pass))
}

fn each_request_is_made_once<Effect: std::fmt::Debug>(pass: &Reconciliation<Effect>) {
    assert!(pass.requests.values().all(|times| *times == 1), "{pass:#?}");
}

/// The most that one pass asks its driver to change.
#[derive(Clone, Copy, Debug)]
struct WriteBounds {
    /// Write requests.
    requests: usize,
    /// Effects of the plan, without those that it may have once per object.
    effects: usize,
}

/// Requests: outputs, Workspace, Update. Effects: the status, the Workspace or the finalizer, the
/// history of Updates, an event on the result, one on the outputs and one on what comes next.
const STACK_BOUNDS: WriteBounds = WriteBounds {
    requests: 3,
    effects: 6,
};
/// Requests: admission, agent, run, outputs. Effects: the status, the admission and the
/// acknowledgement or an event.
const UPDATE_BOUNDS: WriteBounds = WriteBounds {
    requests: 4,
    effects: 3,
};
/// Requests: runtime, setup. Effects: the runtime or an event, and the status.
const WORKSPACE_BOUNDS: WriteBounds = WriteBounds {
    requests: 2,
    effects: 2,
};

/// A Stack's pass also has one effect for each Update that it releases and each prerequisite that
/// it requests.
pub(crate) fn stack_writes_are_bounded(requests: usize, plan: &Plan<stack::StackEffect>) {
    use stack::StackEffect::{ReleaseUpdate, RequestPrerequisite};

    writes_are_bounded(STACK_BOUNDS, requests, plan, |effect| {
        matches!(effect, ReleaseUpdate(_) | RequestPrerequisite { .. })
    });
}

fn writes_are_bounded<Effect: std::fmt::Debug + PartialEq>(
    bounds: WriteBounds,
    requests: usize,
    plan: &Plan<Effect>,
    is_per_object: fn(&Effect) -> bool,
) {
    assert!(requests <= bounds.requests, "{requests} writes: {plan:#?}");
    let effects = &plan.effects;
    let count = effects
        .iter()
        .filter(|effect| !is_per_object(effect))
        .count();
    assert!(count <= bounds.effects, "{count} effects: {plan:#?}");
    for (index, effect) in effects.iter().enumerate() {
        assert!(!effects[..index].contains(effect), "twice: {plan:#?}");
    }
}

/// A pass that writes nothing leaves the cluster unchanged, however much it reads.
pub(super) fn reads_change_nothing<Effect>(
    before: &SimulatedCluster,
    after: &SimulatedCluster,
    pass: &Reconciliation<Effect>,
) {
    if pass.only_reads() {
        assert_eq!(before, after, "after {}", pass.plan.rule);
    }
}

fn no_requeue_is_at_once<Effect: std::fmt::Debug>(pass: &Reconciliation<Effect>) {
    if let Requeue::After(delay) = pass.plan.requeue {
        assert!(delay >= SHORTEST_REQUEUE, "{pass:#?}");
    }
}

/// In spite of crashes, new pods and lost responses.
fn each_run_is_started_once(cluster: &SimulatedCluster) {
    let distinct: std::collections::BTreeSet<&String> = cluster.started.iter().collect();
    assert_eq!(
        distinct.len(),
        cluster.started.len(),
        "{:?}",
        cluster.started
    );
}

/// An event that can't be written blocks nothing.
fn events_come_last<Effect: std::fmt::Debug>(
    pass: &Reconciliation<Effect>,
    is_event: fn(&Effect) -> bool,
) {
    let mut effects = pass
        .plan
        .effects
        .iter()
        .skip_while(|effect| !is_event(effect));
    assert!(effects.all(is_event), "{pass:#?}");
}

fn one_condition_is_true(after: &Stack, pass: &Reconciliation<stack::StackEffect>) {
    // These leave the status unchanged: the next pass writes it, or it is no longer needed.
    if ["adopt", "already-released", NO_RESPONSE].contains(&pass.plan.rule) {
        return;
    }
    let states = [Ready, Reconciling, Stalled].map(|kind| is_stack(after, kind));
    let count = states.iter().filter(|state| **state).count();
    assert_eq!(count, 1, "{:#?} after {pass:#?}", after.status);
}

fn reconciling_stack_has_a_deadline(after: &Stack, pass: &Reconciliation<stack::StackEffect>) {
    let waits = is_stack(after, Reconciling) && pass.plan.rule != "already-released";
    let deadline = matches!(pass.plan.requeue, Requeue::After(_));
    assert!(deadline || !waits, "{pass:#?}");
}

fn deleting_stack_requests_no_up(before: &Stack, pass: &Reconciliation<stack::StackEffect>) {
    let is_deleting = before.metadata.deletion_timestamp.is_some();
    let operation = pass
        .created
        .as_ref()
        .and_then(|(update, _)| update.spec.operation.as_ref());
    assert!(
        !is_deleting || operation != Some(&OperationType::Up),
        "{pass:#?}"
    );
}

fn update_is_a_destroy_exactly_if_deleting(
    before: &Stack,
    pass: &Reconciliation<stack::StackEffect>,
) {
    let deleting = before.metadata.deletion_timestamp.is_some();
    if let Some((update, _)) = &pass.created {
        let destroy = update.spec.operation == Some(OperationType::Destroy);
        assert_eq!(destroy, deleting, "{pass:#?}");
    }
}

fn update_is_named_before_it_is_created(pass: &Reconciliation<stack::StackEffect>) {
    if let Some((update, named)) = &pass.created {
        assert_eq!(&update.metadata.name, named, "{pass:#?}");
    }
}

/// The finalizer is removed after a successful destroy, or if none is needed: it was not requested,
/// or nothing was ever applied.
fn no_destroy_is_missing(before: &Stack, pass: &Reconciliation<stack::StackEffect>) {
    let needs_destroy = stack::ObservedStack::new(before.clone()).needs_destroy();
    let written = pass.plan.effects.iter().find_map(|effect| match effect {
        stack::StackEffect::PatchStatus(status) => Some(status.as_ref()),
        _ => None,
    });
    let last = written
        .or(before.status.as_ref())
        .and_then(|status| status.last_update.as_ref());
    let destroyed = |last: &LastUpdate| {
        last.state == Some(UpdateState::Succeeded)
            && last.operation == Some(OperationType::Destroy)
            && last.generation == before.metadata.generation
    };
    assert!(before.metadata.deletion_timestamp.is_some(), "{pass:#?}");
    let status = written.or(before.status.as_ref());
    let never_applied = status.and_then(|status| status.applied) == Some(false);
    let is_done = never_applied || last.is_none_or(destroyed);
    assert!(!needs_destroy || is_done, "{pass:#?}");
}

/// Resources exist until a destroy has removed them, in spite of the status.
fn no_resources_are_left(
    before: &Stack,
    has_resources: bool,
    pass: &Reconciliation<stack::StackEffect>,
) {
    let requests_destroy = before.spec.destroy_on_finalize == Some(true);
    assert!(!(requests_destroy && has_resources), "{pass:#?}");
}

/// The same spec, request and revision run again after a success only if the spec asks for it.
fn success_is_repeated_only_for_a_trigger(
    before: &Stack,
    pass: &Reconciliation<stack::StackEffect>,
) {
    let last = before
        .status
        .as_ref()
        .and_then(|status| status.last_update.as_ref());
    let (Some((update, _)), Some(last)) = (&pass.created, last) else {
        return;
    };
    let is_same = last.generation == before.metadata.generation
        && last.operation == update.spec.operation
        && last.state == Some(UpdateState::Succeeded);
    let message = update.spec.message.as_deref().unwrap_or_default();
    let triggers = [
        "Resync time elapsed",
        "New commit",
        "Sync request",
        "Refresh found no changes",
    ];
    let is_triggered = triggers.iter().any(|trigger| message.starts_with(trigger));
    assert!(!is_same || is_triggered, "{pass:#?}");
}

fn each_condition_has_a_message(after: &Stack) {
    let conditions = after.status.iter().flat_map(|status| &status.conditions);
    for condition in conditions {
        assert!(!condition.message.is_empty(), "{condition:?}");
        assert!(condition.message.len() <= 32_768, "{condition:?}");
    }
}

fn is_stack(stack: &Stack, kind: ConditionType) -> bool {
    stack
        .status
        .as_ref()
        .is_some_and(|status| is_true(&status.conditions, kind))
}

fn has(update: &Update, kind: ConditionType) -> bool {
    update
        .status
        .as_ref()
        .is_some_and(|status| is_true(&status.conditions, kind))
}

fn is(workspace: &Workspace, kind: ConditionType) -> bool {
    workspace
        .status
        .as_ref()
        .is_some_and(|status| is_true(&status.conditions, kind))
}

mod planted_violations {
    use super::*;

    fn plan(effects: Vec<stack::StackEffect>) -> Plan<stack::StackEffect> {
        Plan {
            rule: "planted",
            effects,
            requeue: Requeue::Settled,
        }
    }

    fn deletions(count: usize) -> Vec<stack::StackEffect> {
        let names = (0..count).map(|number| format!("demo-{number}"));
        names.map(stack::StackEffect::DeleteUpdate).collect()
    }

    #[test]
    fn writes_at_their_bounds_are_accepted() {
        let mut effects = deletions(STACK_BOUNDS.effects);
        effects.extend(["a", "b"].map(|name| stack::StackEffect::ReleaseUpdate(name.to_owned())));
        stack_writes_are_bounded(STACK_BOUNDS.requests, &plan(effects));
    }

    #[test]
    #[should_panic(expected = "4 writes")]
    fn one_write_request_too_many_is_found() {
        stack_writes_are_bounded(STACK_BOUNDS.requests + 1, &plan(Vec::new()));
    }

    #[test]
    #[should_panic(expected = "7 effects")]
    fn one_effect_too_many_is_found() {
        stack_writes_are_bounded(0, &plan(deletions(STACK_BOUNDS.effects + 1)));
    }

    #[test]
    #[should_panic(expected = "twice")]
    fn repeated_effect_is_found() {
        let release = stack::StackEffect::ReleaseUpdate("demo-1".to_owned());
        stack_writes_are_bounded(0, &plan(vec![release.clone(), release]));
    }

    #[test]
    #[should_panic(expected = "a read has an effect")]
    fn read_with_an_effect_is_found() {
        let mut cluster = SimulatedCluster::new(&serde_json::json!({ "stack": "dev" }));
        cluster.read(SimulatedCluster::replace_pod);
    }
}
