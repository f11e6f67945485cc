//! Random walks of user actions, faults and time. After a walk the faults end and every Stack
//! settles: it is ready, reports what it waits for, or is deleted. Then nothing is written any
//! more.
//!
//! A failure names its seed, which `PKO_SEED` replays (a range works, too), and the shortest walk
//! that fails.

use std::{env, thread};

use jiff::SignedDuration;
use pko_api::{
    Stack,
    names::{
        conditions::ConditionType::{Ready, Reconciling, Stalled},
        finalizers,
    },
    pulumi::v1::{StackStatus, UpdateState},
};
use proptest::{
    strategy::Strategy as _,
    test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner},
};
use serde_json::json;

use super::{
    random_events::{self, WalkStep, heal, take},
    simulated_cluster::SimulatedCluster,
    simulated_namespace::SimulatedNamespace,
};
use crate::{
    condition_set::{find, is_true},
    stack::Refusal,
};

/// The number of walks, and with `PKO_FULL=1`.
const WALKS: (u64, u64) = (1_000, 100_000);
/// The most passes until every Stack settles.
const MAX_RECONCILES: usize = 500;
/// How long settled Stacks write nothing, unless something is due.
const REST: SignedDuration = SignedDuration::from_hours(6);

fn new() -> SimulatedNamespace {
    // A long resync interval leaves time to settle.
    let spec = json!({
        "stack": "dev", "programRef": { "name": "hello" }, "destroyOnFinalize": true, "resyncFrequencySeconds": 600,
    });
    let mut after = spec.clone();
    after["prerequisites"] = json!([{ "name": "base" }]);
    SimulatedNamespace::new(&[("base", spec), ("demo", after)])
}

fn go(walk: &[WalkStep]) {
    let mut namespace = new();
    for step in walk {
        take(&mut namespace, step);
    }
    heal(&mut namespace);
    settle(&mut namespace);
    assert_nothing_is_orphaned(&namespace);
    assert_no_writes(&mut namespace);
}

fn settle(namespace: &mut SimulatedNamespace) {
    let mut writes = 0;
    for _ in 0..MAX_RECONCILES {
        if namespace.work(1) {
            if (0..namespace.clusters.len()).all(|index| is_settled(namespace, index)) {
                return;
            }
            // Polls of Workspaces alone do not count as progress.
            let is_calm = namespace.writes() == writes;
            writes = namespace.writes();
            namespace.wait(is_calm);
        }
    }
    panic!("never settled: {}", namespace.journal());
}

/// Whether a Stack has settled.
fn is_settled(namespace: &SimulatedNamespace, index: usize) -> bool {
    let cluster = &namespace.clusters[index];
    let Some(stack) = &cluster.stack else {
        return true;
    };
    let Some(status) = &stack.status else {
        // Its finalizer was removed before it had a status.
        return stack.metadata.deletion_timestamp.is_some();
    };
    let is = |kind| is_true(&status.conditions, kind);
    if status.current_update.is_some() || status.observed_generation != stack.metadata.generation {
        return false;
    }
    match obstacle(namespace, index, &mut Vec::new()) {
        // After its destroy the Stack is deleted.
        None if stack.metadata.deletion_timestamp.is_some() => false,
        None => is(Ready) && is_up_to_date(cluster, stack, status),
        Some(Obstacle::Suspended) => is(Ready) || is(Stalled),
        Some(Obstacle::Invalid | Obstacle::NamespaceTerminating) => is(Stalled),
        // A Stack that was ready before the fault may still be ready.
        Some(Obstacle::Broken) => !is(Reconciling) || has_a_next_attempt(namespace, index, status),
        Some(Obstacle::Prerequisite) => is(Ready) || has_a_next_attempt(namespace, index, status),
    }
}

/// Why a Stack can't become ready although all faults have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    NamespaceTerminating,
    Suspended,
    Invalid,
    Broken,
    /// A prerequisite has an obstacle itself.
    Prerequisite,
}

fn obstacle(
    namespace: &SimulatedNamespace,
    index: usize,
    visited: &mut Vec<usize>,
) -> Option<Obstacle> {
    let cluster = &namespace.clusters[index];
    let stack = cluster.stack.as_ref()?;
    let spec = &stack.spec;
    let is_deleting = stack.metadata.deletion_timestamp.is_some();
    if cluster.refusal == Some(Refusal::NamespaceTerminating) {
        return Some(Obstacle::NamespaceTerminating);
    }
    if spec.suspend == Some(true) && !is_deleting {
        return Some(Obstacle::Suspended);
    }
    if !spec.env_refs.is_empty() {
        return Some(Obstacle::Invalid);
    }
    if cluster.faults.is_broken {
        return Some(Obstacle::Broken);
    }
    visited.push(index);
    let mut prerequisites = spec.prerequisites.iter().filter(|_| !is_deleting);
    let waits = prerequisites.any(|prerequisite| {
        let named = |cluster: &SimulatedCluster| {
            let stack = cluster.stack.as_ref();
            stack.is_some_and(|stack| stack.metadata.name.as_ref() == Some(&prerequisite.name))
        };
        let other = namespace.clusters.iter().position(named);
        other.is_none_or(|other| {
            visited.contains(&other)
                || is_stack_deleting(&namespace.clusters[other])
                || obstacle(namespace, other, visited).is_some()
        })
    });
    waits.then_some(Obstacle::Prerequisite)
}

fn is_stack_deleting(cluster: &SimulatedCluster) -> bool {
    let stack = cluster.stack.as_ref();
    stack.is_some_and(|stack| stack.metadata.deletion_timestamp.is_some())
}

/// Whether the last result is of this spec, request and revision.
fn is_up_to_date(cluster: &SimulatedCluster, stack: &Stack, status: &StackStatus) -> bool {
    let request = stack.metadata.annotations.iter().flatten().next();
    let request = request.map_or("", |(_, value)| value.as_str());
    let revision = stack
        .spec
        .program_ref
        .as_ref()
        .and(cluster.revision.as_deref());
    status.last_update.as_ref().is_some_and(|last| {
        last.state == Some(UpdateState::Succeeded)
            && last.generation == stack.metadata.generation
            && last.reconcile_request.as_deref().unwrap_or_default() == request
            && last.last_successful_commit.as_deref().unwrap_or_default()
                == revision.unwrap_or_default()
    })
}

/// Whether it reports why it is not ready, and its next pass is due.
fn has_a_next_attempt(namespace: &SimulatedNamespace, index: usize, status: &StackStatus) -> bool {
    const WAITS: [&str; 3] = [
        "RetryingAfterFailure",
        "PreviewFailed",
        "PrerequisiteNotSatisfied",
    ];
    let due = namespace.stack_is_due(index);
    // A cycle of prerequisites is an invalid spec, and is retried, too.
    let reconciling = find(&status.conditions, Reconciling);
    let is_known = reconciling.is_none_or(|condition| WAITS.contains(&condition.reason.as_str()));
    is_known && due.is_some_and(|due| due > namespace.now())
}

/// The objects of a deleted Stack are deleted.
fn assert_nothing_is_orphaned(namespace: &SimulatedNamespace) {
    let is_deleted = |cluster: &&SimulatedCluster| cluster.stack.is_none();
    for cluster in namespace.clusters.iter().filter(is_deleted) {
        assert_eq!(cluster.workspace, None);
        let ours = finalizers::STACK.to_owned();
        let is_held = |update: &&pko_api::Update| {
            update
                .metadata
                .finalizers
                .iter()
                .flatten()
                .any(|name| *name == ours)
        };
        assert_eq!(cluster.updates.values().find(is_held), None);
    }
}

/// Neither another pass nor time alone causes a write, unless a retry, a resync or the expiry of an
/// Update is due.
fn assert_no_writes(namespace: &mut SimulatedNamespace) {
    let writes = namespace.writes();
    namespace.reconcile_all();
    namespace.reconcile_all();
    assert_eq!(
        namespace.writes(),
        writes,
        "a pass writes: {}",
        namespace.journal()
    );
    let now = namespace.now();
    let rest = namespace
        .next_due()
        .map_or(REST, |due| now.duration_until(due).min(REST));
    namespace.advance(rest.as_secs() - 1);
    namespace.reconcile_all();
    assert_eq!(
        namespace.writes(),
        writes,
        "time alone writes: {}",
        namespace.journal()
    );
}

/// Runs the walk of this seed.
fn walk(seed: u64) -> Result<(), String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        failure_persistence: None,
        max_shrink_iters: 100,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let tree = random_events::walk().new_tree(&mut runner).unwrap();
    let result = runner.run_one(tree, |walk| {
        go(&walk);
        Ok(())
    });
    match result {
        Ok(_) => Ok(()),
        Err(TestError::Fail(why, walk)) => {
            Err(format!("PKO_SEED={seed}: {why}\n{}", format_walk(&walk)))
        }
        Err(TestError::Abort(why)) => Err(format!("PKO_SEED={seed}: {why}")),
    }
}

/// The steps of a walk, one in each line.
fn format_walk(walk: &[WalkStep]) -> String {
    let steps = walk.iter().filter(|step| !step.is_idle());
    let lines: Vec<String> = steps.map(|step| format!("{step:?}")).collect();
    lines.join("\n")
}

#[expect(
    clippy::disallowed_methods,
    reason = "the environment selects the seeds of this test"
)]
fn seeds() -> std::ops::Range<u64> {
    let (few, many) = WALKS;
    let number = |text: &str| -> u64 { text.parse().expect("PKO_SEED is 7, or 7..9") };
    match env::var("PKO_SEED").ok().as_deref() {
        Some(seeds) => match seeds.split_once("..") {
            Some((first, end)) => number(first)..number(end),
            None => number(seeds)..number(seeds) + 1,
        },
        None if env::var_os("PKO_FULL").is_some() => 0..many,
        None => 0..few,
    }
}

#[test]
fn random_walks_settle_and_then_write_nothing() {
    let seeds: Vec<u64> = seeds().collect();
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let failures: Vec<String> = thread::scope(|scope| {
        let shares = seeds.chunks(seeds.len().div_ceil(workers));
        let shares: Vec<_> = shares
            .map(|share| scope.spawn(|| share.iter().find_map(|seed| walk(*seed).err())))
            .collect();
        let ends = shares.into_iter().map(|share| share.join().unwrap());
        ends.flatten().collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
