//! What holds after every look at an object, whatever the world is.

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

/// Looks at the Stack, and holds what is done up against the laws.
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
    an_update_is_named_before_it_is_made(&pass);
    events_come_last(&pass, |effect| {
        matches!(effect, stack::StackEffect::Emit(_))
    });
    what_succeeded_is_run_again_by_resync_only(&before, &pass);
    if let Some(after) = &cluster.stack {
        one_condition_is_true(after, &pass);
        a_stack_that_reconciles_has_a_deadline(after, &pass);
        each_condition_says_why(after);
    }
    if pass
        .plan
        .effects
        .contains(&stack::StackEffect::RemoveFinalizer)
    {
        nothing_is_owed(&before, &pass);
        nothing_is_left_behind(&before, has_resources, &pass);
    }
    // Another look sees another world where this one did not see, or could not do, everything.
    let asks = |effect: &stack::StackEffect| {
        matches!(effect, stack::StackEffect::RequestPrerequisite { .. })
    };
    let is_whole = !is_behind
        && cluster.faults.creation == Creation::Works
        && !pass.plan.effects.iter().any(asks);
    if cluster.writes != writes && is_whole {
        stack_stands_still(standing_still(cluster), &pass)?;
    }
    Ok(Some(pass))
}

fn stack_stands_still(
    mut calm: SimulatedCluster,
    pass: &Reconciliation<stack::StackEffect>,
) -> Result<(), Crashed> {
    // After adoption the same look goes on with the next rule; that takes one more.
    if pass.plan.rule == "adopt" {
        calm.reconcile_stack()?;
    }
    let settled = calm.stack.clone();
    let requests = calm.requests.clone();
    if let Some(second) = calm.reconcile_stack()? {
        // The other Stack gets what was asked of it only after this one's look.
        let effects = second.plan.effects.iter();
        let new: Vec<_> = effects
            .filter(|effect| !was_asked(&requests, effect))
            .collect();
        assert_eq!(new, Vec::<&stack::StackEffect>::new(), "after {pass:#?}");
        assert_eq!(calm.stack, settled, "after {pass:#?}");
    }
    Ok(())
}

fn was_asked(requests: &[(String, String)], effect: &stack::StackEffect) -> bool {
    let stack::StackEffect::RequestPrerequisite { stack, value } = effect else {
        return false;
    };
    let name = stack.metadata.name.clone().unwrap_or_default();
    requests.contains(&(name, value.clone()))
}

/// The same cluster, in which nobody dies any more.
fn standing_still(cluster: &SimulatedCluster) -> SimulatedCluster {
    SimulatedCluster {
        writes_left: None,
        ..cluster.clone()
    }
}

/// Looks at an Update, and holds what is done up against the laws.
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
    each_run_is_begun_once(cluster);
    if let Some(after) = cluster.updates.get(name) {
        let over = has(after, Complete);
        assert!(
            over || matches!(pass.plan.requeue, Requeue::After(_)),
            "no deadline: {pass:#?}"
        );
    }
    let adopts = |effect: &update::UpdateEffect| matches!(effect, update::UpdateEffect::Adopt(_));
    if pass.plan.effects.iter().any(adopts) {
        // It is its Workspace's from now on, and goes on as such.
        return update(cluster, name);
    }
    // A run that goes on is another one at the next look, and is followed again.
    let running = pass.plan.effects.contains(&update::UpdateEffect::WatchRun);
    if cluster.writes != writes && !running {
        let mut calm = standing_still(cluster);
        if let Some(mut second) = calm.reconcile_update(name)? {
            // Given back once more, it is still given back.
            if second.plan.effects == [update::UpdateEffect::RemoveFinalizer] {
                // It is over, and nobody waits for it: the last thing that is done for it.
                return Ok(Some(pass));
            }
            let gives_back =
                |effect: &update::UpdateEffect| *effect == update::UpdateEffect::ReleaseAdmission;
            second.plan.effects.retain(|effect| !gives_back(effect));
            assert_eq!(second.plan.effects, [], "after {pass:#?}");
            assert_eq!(calm.updates, cluster.updates, "after {pass:#?}");
        }
    }
    Ok(Some(pass))
}

/// Looks at the Workspace, and holds what is done up against the laws.
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
    let done =
        is(&after, Ready) || is(&after, Stalled) || after.metadata.deletion_timestamp.is_some();
    assert!(
        done || matches!(pass.plan.requeue, Requeue::After(_)),
        "no deadline: {pass:#?}"
    );
    assert!(!(is(&after, Ready) && is(&after, Stalled)), "{after:?}");
    if cluster.writes != writes {
        let mut calm = standing_still(cluster);
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

/// Whoever died, was replaced or did not answer in the meantime.
fn each_run_is_begun_once(cluster: &SimulatedCluster) {
    let distinct: std::collections::BTreeSet<&String> = cluster.begun.iter().collect();
    assert_eq!(distinct.len(), cluster.begun.len(), "{:?}", cluster.begun);
}

/// An event that can't be written holds up nothing.
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
    // These two leave the status as it is: the next look speaks, or nobody has to any more.
    if ["adopt", "already-released", NO_RESPONSE].contains(&pass.plan.rule) {
        return;
    }
    let true_ones = [Ready, Reconciling, Stalled].map(|kind| is_stack(after, kind));
    let count = true_ones.iter().filter(|one| **one).count();
    assert_eq!(count, 1, "{:#?} after {pass:#?}", after.status);
}

fn a_stack_that_reconciles_has_a_deadline(
    after: &Stack,
    pass: &Reconciliation<stack::StackEffect>,
) {
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

fn an_update_is_named_before_it_is_made(pass: &Reconciliation<stack::StackEffect>) {
    if let Some((update, named)) = &pass.created {
        assert_eq!(&update.metadata.name, named, "{pass:#?}");
    }
}

/// The finalizer goes after a successful destroy, or where none is owed: it was not asked for, or
/// nothing was ever applied.
fn nothing_is_owed(before: &Stack, pass: &Reconciliation<stack::StackEffect>) {
    let owes = stack::ObservedStack::new(before.clone()).needs_destroy();
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
    let known = written.or(before.status.as_ref());
    let never_applied = known.and_then(|status| status.applied) == Some(false);
    let is_paid = never_applied || last.is_none_or(destroyed);
    assert!(!owes || is_paid, "{pass:#?}");
}

/// Whatever the status says, what was made is there until a destroy took it away.
fn nothing_is_left_behind(
    before: &Stack,
    has_resources: bool,
    pass: &Reconciliation<stack::StackEffect>,
) {
    let wants_destroy = before.spec.destroy_on_finalize == Some(true);
    assert!(!(wants_destroy && has_resources), "{pass:#?}");
}

/// The same spec, request and revision are not run again once they have succeeded, unless the spec
/// says so.
fn what_succeeded_is_run_again_by_resync_only(
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

fn each_condition_says_why(after: &Stack) {
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
