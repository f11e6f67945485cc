//! Random user actions, faults and time for the Stacks of a namespace.

use std::time::Duration;

use jiff::SignedDuration;
use pko_api::{Stack, names::failures::FailureClass};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    simulated_cluster::{Creation, Faults, SimulatedCluster},
    simulated_namespace::SimulatedNamespace,
};
use crate::{
    stack::{Refusal, SourceError},
    update::RunError,
    workspace::{AgentError, RuntimeState, SetupStage, SetupState},
};

/// One step of a walk: an event for a Stack after some time, and the number of passes that may
/// follow.
#[derive(Clone, Debug)]
pub(super) struct WalkStep {
    stack: usize,
    event: RandomEvent,
    seconds: i64,
    passes: usize,
}

impl WalkStep {
    /// Whether nothing happens. Shrinking turns a step that a failure does not need into such a
    /// step.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.event, RandomEvent::Nothing) && self.passes == 0
    }
}

#[derive(Clone, Debug)]
enum RandomEvent {
    Nothing,
    UserAction(UserAction),
    Fault(Fault),
    /// All faults end.
    Heal,
}

#[derive(Clone, Debug)]
enum UserAction {
    /// Sets a field of the spec; null removes it.
    Edit(&'static str, Value),
    /// The same, while the manager's cache is stale.
    EditWithStaleCache(&'static str, Value),
    Request(u8),
    Push,
    Delete,
    DeleteInForeground,
    RemoveFinalizer,
    DeleteUpdate,
    ForceDeleteUpdate,
    DeleteWorkspace,
    PushBrokenProgram,
    PushRepairedProgram,
}

#[derive(Clone, Debug)]
enum Fault {
    /// The manager crashes after this many writes, and restarts.
    Crash(usize),
    PodLost,
    RunsFail(Option<FailureClass>),
    Source(SourceError),
    /// The source stops to respond.
    Unreachable,
    Workspace(Refusal),
    RuntimeState(RuntimeState),
    Agent(AgentError),
    SetupState(SetupState),
    RunProgress(RunError),
    Creation(Creation),
    NamespaceTerminates,
    OutputsLost,
    /// The cache of Updates becomes stale.
    StaleUpdates,
    /// Watch events of other objects are lost.
    LostEvents,
}

/// A walk of 30 steps.
pub(super) fn walk() -> impl Strategy<Value = Vec<WalkStep>> {
    prop::collection::vec(step(), 30)
}

fn step() -> impl Strategy<Value = WalkStep> {
    let seconds = prop_oneof![
        6 => 1..10_i64,
        3 => 10..120_i64,
        2 => 120..4_000_i64,
        1 => 4_000..200_000_i64,
    ];
    (0..2_usize, event(), seconds, 0..12_usize).prop_map(|(stack, event, seconds, passes)| {
        WalkStep {
            stack,
            event,
            seconds,
            passes,
        }
    })
}

fn event() -> impl Strategy<Value = RandomEvent> {
    prop_oneof![
        6 => Just(RandomEvent::Nothing),
        8 => user().prop_map(RandomEvent::UserAction),
        8 => fault().prop_map(RandomEvent::Fault),
        4 => Just(RandomEvent::Heal),
    ]
}

fn user() -> impl Strategy<Value = UserAction> {
    prop_oneof![
        10 => edit().prop_map(|(field, value)| UserAction::Edit(field, value)),
        3 => edit().prop_map(|(field, value)| UserAction::EditWithStaleCache(field, value)),
        3 => (0..4_u8).prop_map(UserAction::Request),
        4 => Just(UserAction::Push),
        1 => Just(UserAction::Delete),
        1 => Just(UserAction::DeleteInForeground),
        1 => Just(UserAction::RemoveFinalizer),
        2 => Just(UserAction::DeleteUpdate),
        2 => Just(UserAction::ForceDeleteUpdate),
        2 => Just(UserAction::DeleteWorkspace),
        1 => Just(UserAction::PushBrokenProgram),
        2 => Just(UserAction::PushRepairedProgram),
    ]
}

/// A field of the spec, and a value for it.
fn edit() -> impl Strategy<Value = (&'static str, Value)> {
    let within = |duration: &str| json!([{ "name": "base", "requirement": { "succeededWithinDuration": duration } }]);
    prop::sample::select(vec![
        ("preview", json!(true)),
        ("preview", json!(false)),
        ("suspend", json!(true)),
        ("suspend", json!(false)),
        ("suspend", json!(null)),
        ("destroyOnFinalize", json!(true)),
        ("destroyOnFinalize", json!(true)),
        ("destroyOnFinalize", json!(false)),
        ("continueResyncOnCommitMatch", json!(true)),
        ("continueResyncOnCommitMatch", json!(false)),
        ("resyncFrequencySeconds", json!(900)),
        ("retryLimit", json!(0)),
        ("retryLimit", json!(1)),
        ("retryLimit", json!(-1)),
        ("retryMaxBackoffDurationSeconds", json!(60)),
        ("retryOnUpdateConflict", json!(true)),
        ("retryOnUpdateConflict", json!(false)),
        ("expectNoRefreshChanges", json!(true)),
        ("expectNoRefreshChanges", json!(false)),
        ("prerequisites", json!([{ "name": "base" }])),
        ("prerequisites", json!([{ "name": "demo" }])),
        ("prerequisites", json!([{ "name": "absent" }])),
        ("prerequisites", within("1h")),
        ("prerequisites", json!([])),
        ("prerequisites", json!([])),
        ("runProgram", json!(true)),
        ("runProgram", json!(false)),
        ("workspaceReclaimPolicy", json!("Delete")),
        ("workspaceReclaimPolicy", json!("Retain")),
        ("removeStackOnDestroy", json!(true)),
        ("successfulUpdatesHistoryLimit", json!(1)),
        (
            "outputsTo",
            json!([{ "kind": "Secret", "name": "outputs" }]),
        ),
        ("config", json!({ "key": "one" })),
        ("config", json!({ "key": "two" })),
        ("envRefs", json!({ "A": { "type": "Env" } })),
        ("envRefs", json!(null)),
        ("envRefs", json!(null)),
        ("programRef", json!(null)),
        ("programRef", json!({ "name": "hello" })),
    ])
}

fn fault() -> impl Strategy<Value = Fault> {
    let refusal = || {
        prop::sample::select(vec![
            Refusal::Invalid("a field is invalid".to_owned()),
            Refusal::Failed("try again".to_owned()),
        ])
    };
    let class = prop::sample::select(vec![
        None,
        Some(FailureClass::Transient),
        Some(FailureClass::Conflict),
        Some(FailureClass::Authentication),
        Some(FailureClass::Program),
        Some(FailureClass::Configuration),
        Some(FailureClass::Canceled),
        Some(FailureClass::Interrupted),
    ]);
    let source = prop::sample::select(vec![
        SourceError::Invalid("the Secret \"git\" does not exist".to_owned()),
        SourceError::Unavailable("there is no Program \"hello\"".to_owned()),
        SourceError::Pending("the source is being read".to_owned()),
    ]);
    prop_oneof![
        8 => (0..10_usize).prop_map(Fault::Crash),
        2 => Just(Fault::PodLost),
        5 => class.prop_map(Fault::RunsFail),
        3 => source.prop_map(Fault::Source),
        2 => Just(Fault::Unreachable),
        2 => refusal().prop_map(Fault::Workspace),
        2 => runtime_state().prop_map(Fault::RuntimeState),
        1 => agent().prop_map(Fault::Agent),
        2 => setup_state().prop_map(Fault::SetupState),
        2 => run_error().prop_map(Fault::RunProgress),
        2 => refusal().prop_map(|refusal| Fault::Creation(Creation::Refused(refusal))),
        3 => Just(Fault::Creation(Creation::ResponseLost)),
        1 => Just(Fault::Creation(Creation::NoResponse)),
        1 => Just(Fault::NamespaceTerminates),
        1 => Just(Fault::OutputsLost),
        2 => Just(Fault::StaleUpdates),
        2 => Just(Fault::LostEvents),
    ]
}

fn runtime_state() -> impl Strategy<Value = RuntimeState> {
    prop::sample::select(vec![
        RuntimeState::Starting("pulling".to_owned()),
        RuntimeState::Rolling("changing".to_owned()),
        RuntimeState::Idle,
        RuntimeState::Failed("no memory".to_owned()),
        RuntimeState::Invalid("no pod".to_owned()),
    ])
}

fn agent() -> impl Strategy<Value = AgentError> {
    prop::sample::select(vec![
        AgentError::Unreachable("no route".to_owned()),
        AgentError::Refused {
            reason: "Unauthenticated".to_owned(),
            message: "no token".to_owned(),
        },
    ])
}

fn setup_state() -> impl Strategy<Value = SetupState> {
    let failed = |is_transient| SetupState::Failed {
        stage: SetupStage::Installing,
        message: "no registry".to_owned(),
        is_transient,
        retry_in: Duration::from_mins(1),
    };
    prop::sample::select(vec![
        SetupState::InProgress(SetupStage::Installing),
        failed(true),
        failed(false),
    ])
}

fn run_error() -> impl Strategy<Value = RunError> {
    prop::sample::select(vec![
        RunError::Unreachable("no route".to_owned()),
        RunError::Refused("no".to_owned()),
        RunError::Lost("unknown run".to_owned()),
    ])
}

/// Takes a step.
pub(super) fn take(namespace: &mut SimulatedNamespace, step: &WalkStep) {
    namespace.advance(step.seconds);
    match &step.event {
        RandomEvent::Nothing => {}
        RandomEvent::UserAction(user) => act(&mut namespace.clusters[step.stack], user),
        RandomEvent::Fault(Fault::LostEvents) => namespace.is_watching = false,
        RandomEvent::Fault(Fault::NamespaceTerminates) => terminate(namespace),
        RandomEvent::Fault(fault) => inject(&mut namespace.clusters[step.stack], fault),
        RandomEvent::Heal => heal(namespace),
    }
    namespace.wake(step.stack);
    namespace.work(step.passes);
    // The cache is current again.
    namespace.clusters[step.stack].stale_stack = None;
}

/// Ends all faults. User actions stay, and so does the termination of a namespace.
pub(super) fn heal(namespace: &mut SimulatedNamespace) {
    for cluster in &mut namespace.clusters {
        let healthy = SimulatedCluster::new(&json!({ "stack": "dev" }));
        let lasting = Some(Refusal::NamespaceTerminating);
        cluster.refusal = cluster
            .refusal
            .take()
            .filter(|refusal| Some(refusal) == lasting.as_ref());
        cluster.faults = Faults {
            is_broken: cluster.faults.is_broken,
            creation: match cluster.refusal.clone() {
                Some(refusal) => Creation::Refused(refusal),
                None => Creation::Works,
            },
            ..Faults::default()
        };
        cluster.runtime = healthy.runtime;
        cluster.version = healthy.version;
        cluster.setup = healthy.setup;
        cluster.agent_error = None;
        cluster.runs_succeed = true;
        cluster.stale_stack = None;
        cluster.writes_left = None;
    }
    namespace.is_watching = true;
    namespace.relist();
}

fn act(cluster: &mut SimulatedCluster, user: &UserAction) {
    let Some(stack) = cluster.stack.clone() else {
        return;
    };
    let is_deleting = stack.metadata.deletion_timestamp.is_some();
    match user {
        UserAction::Edit(field, value) => edit_field(cluster, field, value),
        UserAction::EditWithStaleCache(field, value) => {
            cluster.stale_stack = Some(stack);
            edit_field(cluster, field, value);
        }
        UserAction::Request(number) => cluster.request(&format!("request-{number}")),
        UserAction::Push => push(cluster),
        UserAction::Delete if !is_deleting => cluster.delete_stack(),
        UserAction::DeleteInForeground if !is_deleting => cluster.delete_stack_in_foreground(),
        UserAction::Delete | UserAction::DeleteInForeground => {}
        UserAction::RemoveFinalizer => cluster.remove_finalizer(),
        UserAction::DeleteUpdate => {
            if let Some(name) = newest_update(cluster) {
                cluster.delete_update(&name);
            }
        }
        UserAction::ForceDeleteUpdate => {
            if let Some(name) = newest_update(cluster) {
                cluster.updates.remove(&name);
            }
        }
        UserAction::DeleteWorkspace => cluster.delete_workspace(),
        UserAction::PushBrokenProgram => {
            cluster.faults.is_broken = true;
            push(cluster);
        }
        UserAction::PushRepairedProgram => {
            cluster.faults.is_broken = false;
            push(cluster);
        }
    }
}

fn push(cluster: &mut SimulatedCluster) {
    let revision: u32 = cluster.revision.as_deref().unwrap_or("0").parse().unwrap();
    cluster.revision = Some((revision + 1).to_string());
}

fn newest_update(cluster: &SimulatedCluster) -> Option<String> {
    let status = cluster.stack.as_ref()?.status.as_ref()?;
    let current = status
        .current_update
        .as_ref()
        .and_then(|current| current.name.clone());
    current.or_else(|| cluster.updates.keys().next().cloned())
}

fn edit_field(cluster: &mut SimulatedCluster, field: &str, value: &Value) {
    let before = cluster.stack.clone().unwrap();
    let mut object = serde_json::to_value(&before).unwrap();
    let spec = object["spec"].as_object_mut().unwrap();
    spec.remove(field);
    if !value.is_null() {
        spec.insert(field.to_owned(), value.clone());
    }
    let after: Stack = serde_json::from_value(object).unwrap();
    if after != before {
        cluster.edit(|stack| *stack = after);
    }
}

/// Deletes all objects of the namespace, which accepts no new ones.
fn terminate(namespace: &mut SimulatedNamespace) {
    for cluster in &mut namespace.clusters {
        cluster.refusal = Some(Refusal::NamespaceTerminating);
        cluster.faults.creation = Creation::Refused(Refusal::NamespaceTerminating);
        if cluster
            .stack
            .as_ref()
            .is_some_and(|stack| stack.metadata.deletion_timestamp.is_none())
        {
            cluster.delete_stack();
        }
        cluster.delete_workspace();
        let names: Vec<String> = cluster.updates.keys().cloned().collect();
        for name in &names {
            cluster.delete_update(name);
        }
    }
}

fn inject(cluster: &mut SimulatedCluster, fault: &Fault) {
    match fault.clone() {
        Fault::Crash(writes) => cluster.writes_left = Some(writes),
        Fault::PodLost => cluster.replace_pod(),
        Fault::RunsFail(class) => {
            cluster.runs_succeed = false;
            cluster.faults.class = class;
        }
        Fault::Source(problem) => cluster.faults.source = Some(problem),
        Fault::Unreachable => {
            let since = cluster.now - SignedDuration::from_secs(5);
            let message = "no route".to_owned();
            cluster.faults.source = Some(SourceError::Unreachable { since, message });
        }
        Fault::Workspace(refusal) => {
            // Termination of a namespace is final.
            cluster.refusal.get_or_insert(refusal);
        }
        Fault::RuntimeState(state) => cluster.runtime = state,
        Fault::Agent(error) => cluster.version = Err(error),
        Fault::SetupState(state) => cluster.setup = state,
        Fault::RunProgress(error) => cluster.agent_error = Some(error),
        Fault::Creation(creation) if cluster.refusal != Some(Refusal::NamespaceTerminating) => {
            cluster.faults.creation = creation;
        }
        Fault::OutputsLost => cluster.outputs.clear(),
        Fault::StaleUpdates => cluster.faults.old_updates = cluster.updates.clone(),
        Fault::Creation(_) | Fault::LostEvents | Fault::NamespaceTerminates => {}
    }
}
