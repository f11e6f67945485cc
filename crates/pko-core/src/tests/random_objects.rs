//! The invariants in generated states, likely or not: enumerated ones and random ones.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pko_api::names::{annotations, finalizers, labels};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    invariants,
    simulated_cluster::{
        Crashed, Reconciliation, STACK_READS, SimulatedCluster, UPDATE_READS, WORKSPACE_READS,
    },
};
use crate::{
    stack::Refusal,
    update::RunError,
    workspace::{AgentError, RuntimeState, SetupStage, SetupState},
};

/// Decodes a number into choices: each number is a state, and each state has a number.
struct Choices(u64);

impl Choices {
    fn of<T: Clone>(&mut self, options: &[T]) -> T {
        let count = options.len() as u64;
        let index = usize::try_from(self.0 % count).unwrap();
        self.0 /= count;
        options[index].clone()
    }

    fn flip(&mut self) -> bool {
        self.of(&[false, true])
    }
}

fn condition(cluster: &SimulatedCluster, kind: &str, status: &str, reason: &str) -> Value {
    let time = (cluster.now - SignedDuration::from_secs(100)).to_string();
    json!({ "type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": time })
}

fn conditions(cluster: &SimulatedCluster, all: &[(&str, &str, &str)]) -> Value {
    all.iter()
        .map(|(kind, status, reason)| condition(cluster, kind, status, reason))
        .collect()
}

fn ago(cluster: &SimulatedCluster, seconds: i64) -> String {
    (cluster.now - SignedDuration::from_secs(seconds)).to_string()
}

/// A Stack and its objects, each in some state.
fn stack_state(number: u64) -> SimulatedCluster {
    let mut choices = Choices(number);
    let spec = json!({
        "stack": "dev",
        "destroyOnFinalize": choices.flip(),
        "programRef": choices.of(&[json!({ "name": "hello" }), json!(null)]),
        "preview": choices.of(&[false, false, true]),
        "runProgram": choices.flip(),
        "continueResyncOnCommitMatch": choices.flip(),
        "workspaceReclaimPolicy": choices.of(&["Retain", "Delete"]),
        "branch": choices.of(&[json!(null), json!(null), json!("main")]),
        "envRefs": choices.of(&[
            json!({}),
            json!({}),
            json!({ "A": { "type": "Env" } }),
            json!({ "A": { "type": "Secret", "secret": { "name": "tokens", "key": "a" } } }),
        ]),
        "envs": choices.of(&[json!([]), json!([]), json!(["settings"])]),
        "prerequisites": choices.of(&[json!([]), json!([]), json!([{ "name": "base" }])]),
        "outputsTo": choices.of(&[json!([]), json!([{ "kind": "Secret", "name": "outputs" }])]),
    });
    let mut cluster = SimulatedCluster::new(&spec);
    add_prerequisite(&mut cluster, choices.flip());
    if choices.flip() {
        let version = Some("1".to_owned());
        cluster.secrets.insert("tokens".to_owned(), version);
    }
    let now = cluster.now;
    cluster.revision = choices.of(&[Some("1"), Some("2"), None]).map(str::to_owned);
    cluster.refusal = choices.of(&[
        None,
        None,
        None,
        Some(Refusal::Invalid("bad".to_owned())),
        Some(Refusal::NamespaceTerminating),
        Some(Refusal::Failed("busy".to_owned())),
    ]);
    let status = stack_status(&mut choices, &cluster);
    let update = choices.of(&[
        None,
        Some("running"),
        Some("waiting"),
        Some("succeeded"),
        Some("failed"),
    ]);
    if let Some(state) = update {
        let operation = choices.of(&["up", "destroy"]);
        add_update(&mut cluster, state, operation, choices.flip());
    }
    let workspace = choices.of(&[
        None,
        Some("Ready"),
        Some("Stalled"),
        Some("Waiting"),
        Some("TooOld"),
    ]);
    let stack = cluster.stack.as_mut().unwrap();
    stack.status = serde_json::from_value(status).unwrap();
    stack.metadata.generation = Some(2);
    if choices.of(&[true, true, true, false]) {
        stack.metadata.finalizers = Some(vec![finalizers::STACK.to_owned()]);
    }
    // Another finalizer keeps the Stack, so that its last status can be checked.
    stack
        .metadata
        .finalizers
        .get_or_insert_default()
        .push("other".to_owned());
    if choices.flip() {
        stack.metadata.deletion_timestamp = Some(Time(now));
    }
    if choices.of(&[false, false, true]) {
        cluster.request("now");
    }
    if let Some(state) = workspace {
        add_workspace(&mut cluster, state, choices.flip());
    }
    cluster
}

/// The Stack `base`, which has succeeded, or the error of the API server.
fn add_prerequisite(cluster: &mut SimulatedCluster, exists: bool) {
    let base = json!({
        "metadata": { "name": "base", "namespace": "shop", "uid": "stack-base", "generation": 1 },
        "spec": { "stack": "base" },
        "status": { "lastUpdate": { "generation": 1, "state": "succeeded" } },
    });
    let base = if exists {
        Ok(serde_json::from_value(base).unwrap())
    } else {
        Err("stacks.pulumi.com \"base\" not found".to_owned())
    };
    cluster.others.insert("base".to_owned(), base);
}

fn stack_status(choices: &mut Choices, cluster: &SimulatedCluster) -> Value {
    let summary = choices.of(&[
        json!([]),
        conditions(cluster, &[("Ready", "True", "ProcessingCompleted")]),
        conditions(
            cluster,
            &[
                ("Ready", "False", "NotReadyStalled"),
                ("Stalled", "True", "WorkspaceFailed"),
            ],
        ),
        conditions(
            cluster,
            &[
                ("Ready", "False", "NotReadyInProgress"),
                ("Reconciling", "True", "StackProcessing"),
            ],
        ),
        conditions(
            cluster,
            &[
                ("Ready", "True", "X"),
                ("Reconciling", "True", "X"),
                ("Stalled", "True", "X"),
            ],
        ),
    ]);
    let last = json!({
        "generation": choices.of(&[2, 1]),
        "name": "demo-0",
        "type": choices.of(&["up", "destroy", "preview"]),
        "state": choices.of(&["succeeded", "failed", "odd"]),
        "lastAttemptedCommit": choices.of(&[json!("1"), json!(null)]),
        "lastSuccessfulCommit": choices.of(&[json!("1"), json!(null)]),
        "lastResyncTime": choices.of(&[json!(ago(cluster, 0)), json!(ago(cluster, 1_000_000)), json!(null)]),
        "failures": choices.of(&[json!(null), json!(2), json!(3), json!(i64::MAX)]),
    });
    let current = json!({ "generation": choices.of(&[2, 1]), "name": "demo-1", "commit": "1" });
    json!({
        "observedGeneration": choices.of(&[2, 1]),
        "observedReconcileRequest": choices.of(&["", "now"]),
        "conditions": summary,
        "lastUpdate": choices.of(&[last, json!(null)]),
        "currentUpdate": choices.of(&[json!(null), current]),
        "references": choices.of(&[
            json!(null),
            json!({ "configMaps": { "settings": "1" }, "secrets": { "tokens": "1" } }),
        ]),
        "projectInfo": choices.of(&[json!(null), json!({ "name": "hello", "runtime": "yaml" })]),
    })
}

fn add_update(cluster: &mut SimulatedCluster, state: &str, operation: &str, deleting: bool) {
    let failed = if state == "failed" { "True" } else { "False" };
    let ended = [
        ("Failed", failed, "UpdateFailed"),
        ("Complete", "True", "Updated"),
    ];
    let conditions = match state {
        "running" => conditions(cluster, &[("Progressing", "True", "Progressing")]),
        "waiting" => conditions(cluster, &[("Progressing", "False", "WorkspaceNotReady")]),
        _ => conditions(cluster, &ended),
    };
    let update = json!({
        "metadata": {
            "name": "demo-1", "generation": 1, "finalizers": [finalizers::STACK],
            "deletionTimestamp": deleting.then(|| ago(cluster, 1)),
        },
        "spec": { "type": operation },
        "status": { "conditions": conditions, "outputs": "demo-1-stack-outputs" },
    });
    cluster
        .updates
        .insert("demo-1".to_owned(), serde_json::from_value(update).unwrap());
}

/// Adds the Workspace that the Stack would apply, in this state, about the current generation or an
/// older one.
fn add_workspace(cluster: &mut SimulatedCluster, state: &str, current: bool) {
    let mut applied = cluster.clone();
    applied.refusal = None;
    if applied.reconcile_stack().is_err() || applied.workspace.is_none() {
        return;
    }
    let conditions = match state {
        "Ready" => conditions(cluster, &[("Ready", "True", "Succeeded")]),
        "Stalled" => conditions(cluster, &[("Stalled", "True", "InstallationFailed")]),
        "TooOld" => conditions(cluster, &[("Stalled", "True", "IncompatibleConfiguration")]),
        _ => conditions(cluster, &[("Ready", "False", "Installing")]),
    };
    let status = json!({ "observedGeneration": i64::from(current), "conditions": conditions });
    cluster.workspace = applied.workspace;
    cluster.workspace.as_mut().unwrap().status = serde_json::from_value(status).unwrap();
}

/// An Update, its Workspace and its agent, each in some state.
fn update_state(number: u64) -> SimulatedCluster {
    let mut choices = Choices(number);
    let mut cluster = SimulatedCluster::new(&json!({ "stack": "dev" }));
    let not_yet = [
        ("Failed", "False", "Progressing"),
        ("Complete", "False", "Progressing"),
    ];
    let first = choices.of(&[
        None,
        Some(("True", "Progressing")),
        Some(("False", "TransientFailure")),
        Some(("False", "WorkspaceNotReady")),
        Some(("False", "Complete")),
    ]);
    let status = first.map(|(status, reason)| {
        let complete = [("Failed", "True", "X"), ("Complete", "True", "Updated")];
        let rest = if reason == "Complete" {
            complete
        } else {
            not_yet
        };
        let all = [("Progressing", status, reason), rest[0], rest[1]];
        json!({
            "observedGeneration": choices.of(&[1, 2]),
            "conditions": conditions(&cluster, &all),
            "workspaceInstance": choices.of(&[json!(null), json!("pod-1"), json!("pod-0")]),
        })
    });
    let owner = json!([{ "apiVersion": "v", "kind": "Workspace", "name": "demo", "uid": "w", "controller": true }]);
    let update = json!({
        "metadata": {
            "name": "demo-1", "generation": 2, "uid": "run",
            "finalizers": choices.of(&[json!(["hold"]), json!(["hold", finalizers::STACK])]),
            "labels": { labels::STACK_NAME: "demo" },
            "ownerReferences": choices.of(&[owner.clone(), owner, json!([])]),
            "deletionTimestamp": choices.of(&[json!(null), json!(null), json!(ago(&cluster, 1))]),
            "annotations": choices.of(&[json!({}), json!({ "auto.pulumi.com/cancel": "true" })]),
        },
        "spec": {
            "workspaceName": "demo", "stackName": "dev",
            "type": choices.of(&[json!("up"), json!("up"), json!("destroy"), json!("odd"), json!(null)]),
            "ttlAfterCompleted": choices.of(&[json!(null), json!("1s"), json!("24h")]),
        },
        "status": status,
    });
    cluster
        .updates
        .insert("demo-1".to_owned(), serde_json::from_value(update).unwrap());
    cluster.agent_error = choices.of(&[
        None,
        None,
        Some(RunError::Unreachable("no route".to_owned())),
        Some(RunError::Refused("no".to_owned())),
        Some(RunError::Lost("unknown run".to_owned())),
    ]);
    cluster.runs_succeed = choices.flip();
    let ready = choices.of(&[None, Some("True"), Some("False")]);
    cluster.workspace = ready.map(|ready| {
        let conditions = conditions(&cluster, &[("Ready", ready, "X")]);
        let workspace = json!({
            "metadata": { "name": "demo", "generation": 1 },
            "status": { "observedGeneration": 1, "conditions": conditions },
        });
        serde_json::from_value(workspace).unwrap()
    });
    cluster
}

/// A Workspace, its runtime and its agent, each in some state.
fn workspace_state(number: u64) -> SimulatedCluster {
    let mut choices = Choices(number);
    let mut cluster = SimulatedCluster::new(&json!({ "stack": "dev" }));
    let runtimes = [
        cluster.runtime.clone(),
        cluster.runtime.clone(),
        RuntimeState::Starting("pulling".to_owned()),
        RuntimeState::Rolling("changing".to_owned()),
        RuntimeState::Idle,
        RuntimeState::Failed("no memory".to_owned()),
        RuntimeState::Invalid("no pod".to_owned()),
    ];
    cluster.runtime = choices.of(&runtimes);
    let versions = [
        cluster.version.clone(),
        Err(AgentError::Unreachable("no route".to_owned())),
        Err(AgentError::Refused {
            reason: "Unauthenticated".to_owned(),
            message: "no token".to_owned(),
        }),
    ];
    cluster.version = choices.of(&versions);
    let failed = |stage, is_transient| SetupState::Failed {
        stage,
        message: "no registry".to_owned(),
        is_transient,
        retry_in: std::time::Duration::from_mins(1),
    };
    cluster.setup = choices.of(&[
        SetupState::Done,
        SetupState::InProgress(SetupStage::Installing),
        failed(SetupStage::Installing, true),
        failed(SetupStage::Initializing, false),
    ]);
    let stored = choices.of(&[
        json!([]),
        conditions(&cluster, &[("Ready", "True", "Succeeded")]),
        conditions(&cluster, &[("Ready", "False", "Installing")]),
        conditions(&cluster, &[("Ready", "False", "ConnectionFailed")]),
        conditions(
            &cluster,
            &[
                ("Ready", "False", "InstallationFailed"),
                ("Stalled", "True", "InstallationFailed"),
            ],
        ),
        conditions(
            &cluster,
            &[("Ready", "True", "Succeeded"), ("Stalled", "True", "X")],
        ),
    ]);
    // None for a Workspace with an owner; otherwise the Stack whose destroy runs in it.
    let destroys = choices.of(&[None, Some("stack-demo"), Some("stack-before")]);
    let owner =
        json!([{ "apiVersion": "v", "kind": "Stack", "name": "demo", "uid": "stack-demo" }]);
    let workspace = json!({
        "metadata": {
            "name": "demo", "generation": 2,
            "deletionTimestamp": choices.of(&[json!(null), json!(null), json!(ago(&cluster, 1))]),
            "labels": { labels::STACK_NAME: "demo" },
            "annotations": destroys.map(|uid| json!({ annotations::DESTROYS: uid })),
            "ownerReferences": destroys.is_none().then_some(owner),
        },
        "status": {
            "observedGeneration": choices.of(&[2, 1]),
            "address": choices.of(&[json!(null), json!("unix:/run/old")]),
            "conditions": stored,
        },
    });
    cluster.workspace = Some(serde_json::from_value(workspace).unwrap());
    cluster
}

fn check_stack(number: u64) {
    let mut cluster = stack_state(number);
    invariants::stack(&mut cluster).unwrap();
}

#[test]
fn stack_invariants_hold_in_sampled_states() {
    // A large prime as step combines all choices.
    (0..1_000_u64).for_each(|index| check_stack(index.wrapping_mul(6_700_417_700_417)));
}

#[test]
fn update_invariants_hold_in_all_states() {
    let states = 5 * 2 * 3 * 2 * 3 * 3 * 2 * 5 * 3 * 5 * 2 * 3;
    for number in (0..states).step_by(23) {
        invariants::update(&mut update_state(number), "demo-1").unwrap();
    }
}

#[test]
fn workspace_invariants_hold_in_all_states() {
    for number in 0..7 * 3 * 4 * 6 * 3 * 3 * 2 * 2 {
        invariants::workspace(&mut workspace_state(number)).unwrap();
    }
}

/// The generated states reach every read. A pass that only reads leaves the cluster unchanged, as
/// each read does ([`SimulatedCluster::read`]).
#[test]
fn reads_have_no_effect_in_generated_states() {
    let mut stacks = ReadingPasses::default();
    for number in (0..1_000_u64).map(|index| index.wrapping_mul(6_700_417_700_417)) {
        stacks.reconcile(stack_state(number), SimulatedCluster::reconcile_stack);
    }
    stacks.assert_reads(&STACK_READS);
    let mut updates = ReadingPasses::default();
    for number in 0..1_000_u64 {
        let reconcile = |cluster: &mut SimulatedCluster| cluster.reconcile_update("demo-1");
        updates.reconcile(update_state(number * 241), reconcile);
    }
    updates.assert_reads(&UPDATE_READS);
    let mut workspaces = ReadingPasses::default();
    for number in 0..1_000_u64 {
        let reconcile = SimulatedCluster::reconcile_workspace;
        workspaces.reconcile(workspace_state(number * 17), reconcile);
    }
    workspaces.assert_reads(&WORKSPACE_READS);
}

/// The requests of each rule, as the comments in the Stack's table of rules list them.
const STACK_REQUESTS: [(&str, &[&str]); 9] = [
    ("evaluate", &["outputs", "publish", "update"]),
    (
        "update-workspace",
        &[
            "config maps",
            "existing workspace",
            "secrets",
            "source",
            "workspace",
        ],
    ),
    ("source", &["existing workspace", "source"]),
    ("in-sync", &["config maps", "secrets"]),
    ("prerequisites", &["prerequisites"]),
    ("namespace", &["config maps", "secrets", "workspace"]),
    ("inputs", &["config maps", "secrets"]),
    ("workspace", &["workspace"]),
    ("launch", &["create"]),
];

#[test]
fn stack_rules_request_what_their_table_lists() {
    let mut requests: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for number in (0..3_000_u64).map(|index| index.wrapping_mul(6_700_417_700_417)) {
        for (rule, request) in stack_state(number).stack_requests_by_rule() {
            requests.entry(rule).or_default().insert(request);
        }
    }
    let listed = STACK_REQUESTS.map(|(rule, names)| (rule, names.iter().copied().collect()));
    assert_eq!(requests, BTreeMap::from(listed));
}

/// The passes on which the invariant about reads was checked.
#[derive(Default)]
struct ReadingPasses {
    /// Passes that only read.
    count: usize,
    requests: BTreeSet<&'static str>,
}

impl ReadingPasses {
    fn reconcile<Effect>(
        &mut self,
        mut cluster: SimulatedCluster,
        reconcile: impl Fn(&mut SimulatedCluster) -> Result<Option<Reconciliation<Effect>>, Crashed>,
    ) {
        // The second pass finds what the first one has written.
        for _ in 0..2 {
            let before = cluster.clone();
            let Some(pass) = reconcile(&mut cluster).unwrap() else {
                return;
            };
            self.count += usize::from(pass.only_reads());
            self.requests.extend(pass.requests.keys());
            invariants::reads_change_nothing(&before, &cluster, &pass);
        }
    }

    fn assert_reads(&self, reads: &[&'static str]) {
        assert!(self.count > 0, "every pass writes");
        let missing: Vec<_> = reads
            .iter()
            .filter(|read| !self.requests.contains(*read))
            .collect();
        assert!(missing.is_empty(), "no generated state needs {missing:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stack_invariants_hold_in_any_state(number: u64) {
        check_stack(number);
    }

    #[test]
    fn stack_invariants_hold_over_time(number: u64, seconds in prop::collection::vec(0_i64..100_000, 1..6)) {
        let mut cluster = stack_state(number);
        for step in seconds {
            invariants::stack(&mut cluster).unwrap();
            invariants::workspace(&mut cluster).unwrap();
            let names: Vec<String> = cluster.updates.keys().cloned().collect();
            for name in names {
                invariants::update(&mut cluster, &name).unwrap();
            }
            cluster.advance(step);
        }
    }
}
