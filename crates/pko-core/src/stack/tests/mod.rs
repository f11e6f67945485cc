//! Each rule of the Stack's table: what is given, and what is done, as text.
#![expect(
    clippy::needless_pass_by_value,
    reason = "a table of `json!` reads better without `&`"
)]

mod deletion;
mod desired;
mod existing_workspace;
mod finalization;
mod finished_update;
mod launch;
mod prerequisites;
mod protocol;
mod publishing;
mod references;
mod refresh_first;
mod refusals;
mod retries;
mod rule_imports;
mod scenarios;
mod staleness;
mod suspend;
mod sync;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use pko_api::{Update, auto::v1alpha1::FluxArtifact};
use serde_json::{Value, json};

use super::*;
use crate::{
    Plan,
    condition_set::{find, is_true},
    tests::stack_writes_are_bounded,
};
use pko_api::names::conditions::ConditionType::{Ready, Reconciling, Stalled};

/// The time at which everything is decided.
fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

/// A Stack of generation 3 that we hold, its Program at revision `3`, its Workspace ready.
struct StackFixture {
    stack: Value,
    update: Option<Value>,
    outputs: Option<StackOutputs>,
    source: Result<ProgramSource, SourceError>,
    config_maps: Versions,
    secrets: Versions,
    prerequisites: Prerequisites,
    /// The Workspace before anything is applied.
    existing: Option<Value>,
    workspace: Result<Value, Refusal>,
    created: Result<(), Refusal>,
    published: Result<(), String>,
    settings: StackSettings,
}

/// The requests and the plan of a pass.
struct StackOutcome {
    requests: Vec<StackStep>,
    plan: Plan<StackEffect>,
}

fn fixture() -> StackFixture {
    StackFixture {
        stack: json!({
            "metadata": {
                "name": "demo", "namespace": "shop", "uid": "stack-uid", "generation": 3,
                "finalizers": ["finalizer.stack.pulumi.com"], "annotations": {},
            },
            "spec": { "stack": "dev", "programRef": { "name": "hello" } },
        }),
        update: None,
        outputs: None,
        source: Ok(revision("3")),
        config_maps: Versions::new(),
        secrets: Versions::new(),
        prerequisites: Prerequisites::new(),
        existing: None,
        created: Ok(()),
        published: Ok(()),
        settings: StackSettings::default(),
        workspace: Ok(json!({
            "metadata": { "name": "demo", "namespace": "shop", "uid": "workspace-uid", "generation": 2 },
            "status": { "observedGeneration": 2, "conditions": [condition("Ready", "True", "Succeeded", "")] },
        })),
    }
}

fn revision(revision: &str) -> ProgramSource {
    ProgramSource {
        revision: revision.to_owned(),
        location: Location::Artifact(FluxArtifact {
            url: Some(format!("http://operator/{revision}")),
            digest: Some("sha256:1".to_owned()),
            dir: None,
        }),
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": ago(1_000),
    })
}

/// Lays one object over another, deeply.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

impl StackFixture {
    fn with(mut self, object: Value) -> Self {
        merge(&mut self.stack, object);
        self
    }

    fn spec(self, fields: Value) -> Self {
        self.with(json!({ "spec": fields }))
    }

    fn status(self, fields: Value) -> Self {
        self.with(json!({ "status": fields }))
    }

    /// The last Update succeeded an hour ago, unless these fields differ.
    fn last(self, fields: Value) -> Self {
        self.status(json!({ "lastUpdate": {
            "generation": 3, "name": "demo-1", "type": "up", "state": "succeeded",
            "lastAttemptedCommit": "3", "lastSuccessfulCommit": "3", "lastResyncTime": ago(3_600),
        } }))
        .status(json!({ "lastUpdate": fields }))
    }

    fn failed(self, failures: i64, seconds_ago: i64) -> Self {
        self.last(
            json!({ "state": "failed", "failures": failures, "lastResyncTime": ago(seconds_ago) }),
        )
    }

    /// An Update was started for this generation, and is what is given here.
    fn current(mut self, update: Value) -> Self {
        self.update = Some(update);
        self.vanished()
    }

    /// An Update was started for this generation, and does not exist.
    fn vanished(self) -> Self {
        self.status(json!({ "currentUpdate": {
            "generation": 3, "reconcileRequest": "", "name": "demo-2", "commit": "3",
        } }))
    }

    fn request(self, value: &str) -> Self {
        self.with(json!({ "metadata": { "annotations": { "pulumi.com/reconciliation-request": value } } }))
    }

    fn deleting(self) -> Self {
        self.with(json!({ "metadata": { "deletionTimestamp": ago(5) } }))
    }

    fn unheld(self) -> Self {
        self.with(json!({ "metadata": { "finalizers": ["someone.else/hold"] } }))
    }

    fn source(mut self, source: Result<ProgramSource, SourceError>) -> Self {
        self.source = source;
        self
    }

    fn workspace(mut self, fields: Value) -> Self {
        merge(self.workspace.as_mut().unwrap(), fields);
        self
    }

    fn workspace_refused(mut self, refusal: Refusal) -> Self {
        self.workspace = Err(refusal);
        self
    }

    fn update_refused(mut self, refusal: Refusal) -> Self {
        self.created = Err(refusal);
        self
    }

    /// Another Stack of the namespace, with these fields.
    fn neighbour(mut self, name: &str, fields: Value) -> Self {
        let mut stack = json!({
            "metadata": { "name": name, "namespace": "shop", "uid": name, "generation": 1 },
            "spec": { "stack": name },
        });
        merge(&mut stack, fields);
        let stack = serde_json::from_value(stack).unwrap();
        self.prerequisites.insert(name.to_owned(), Ok(stack));
        self
    }

    /// The stored status is what this case would write: the second look at the same thing.
    fn seen_before(mut self) -> Self {
        if let Some(status) = self.decide().status() {
            self.stack["status"] = serde_json::to_value(status).unwrap();
        }
        self
    }

    fn answer(&self, request: &StackStep) -> StackResponse {
        match request {
            StackStep::Finish(_) => unreachable!(),
            StackStep::Read(StackRead::CurrentUpdate(_)) => StackResponse::CurrentUpdate(
                self.update
                    .clone()
                    .map(|update| serde_json::from_value(update).unwrap()),
            ),
            StackStep::Read(StackRead::Outputs(_)) => self
                .outputs
                .clone()
                .map_or(StackResponse::NoOutputs, |outputs| {
                    StackResponse::Outputs(outputs.into())
                }),
            StackStep::Write(StackWrite::PublishOutputs(_)) => {
                StackResponse::Published(self.published.clone())
            }
            StackStep::Read(StackRead::Source(_)) => StackResponse::Source(self.source.clone()),
            StackStep::Read(StackRead::ConfigMaps(names)) => {
                StackResponse::ConfigMaps(versions(names, &self.config_maps))
            }
            StackStep::Read(StackRead::Secrets(names)) => {
                StackResponse::Secrets(versions(names, &self.secrets))
            }
            StackStep::Read(StackRead::Prerequisites) => {
                StackResponse::Prerequisites(self.prerequisites.clone())
            }
            StackStep::Write(StackWrite::CreateUpdate(..)) => {
                StackResponse::Created(self.created.clone())
            }
            StackStep::Read(StackRead::ExistingWorkspace(_)) => StackResponse::ExistingWorkspace(
                self.existing
                    .clone()
                    .map(|workspace| serde_json::from_value(workspace).unwrap()),
            ),
            StackStep::Write(StackWrite::ApplyWorkspace(..)) => StackResponse::Workspace(
                self.workspace
                    .clone()
                    .map(|workspace| serde_json::from_value(workspace).unwrap()),
            ),
        }
    }

    fn decide(&self) -> StackOutcome {
        let mut observed = ObservedStack::new(serde_json::from_value(self.stack.clone()).unwrap());
        observed.settings = self.settings;
        self.decide_from(observed)
    }

    fn decide_from(&self, mut observed: ObservedStack) -> StackOutcome {
        let mut requests = Vec::new();
        loop {
            match observed.decide(now()) {
                StackStep::Finish(plan) => {
                    let is_write = |request: &&StackStep| matches!(request, StackStep::Write(_));
                    let writes = requests.iter().filter(is_write).count();
                    stack_writes_are_bounded(writes, &plan);
                    return StackOutcome { requests, plan };
                }
                request => {
                    observed.observe(self.answer(&request));
                    requests.push(request);
                }
            }
        }
    }
}

impl StackOutcome {
    /// The last status that is written, if one is.
    fn status(&self) -> Option<&StackStatus> {
        let mut effects = self.plan.effects.iter();
        let written = effects.find_map(|effect| match effect {
            StackEffect::PatchStatus(status) => Some(status.as_ref()),
            _ => None,
        });
        written.or(self.creation().map(|(_, status)| status))
    }

    /// The Update that is created, and the status that names it.
    fn creation(&self) -> Option<(&Update, &StackStatus)> {
        self.requests.iter().find_map(|request| match request {
            StackStep::Write(StackWrite::CreateUpdate(update, status)) => {
                Some((update.as_ref(), status.as_ref()))
            }
            _ => None,
        })
    }

    fn created(&self) -> &Update {
        self.creation().unwrap().0
    }

    /// The rule, the Update that is created and the status before it, each effect in order, and
    /// when to look again.
    fn lines(&self) -> Vec<String> {
        let requeue = match self.plan.requeue {
            Requeue::Settled => "settled".to_owned(),
            Requeue::After(delay) => format!("again in {delay:?}"),
        };
        let created = self.creation().into_iter().flat_map(|(update, status)| {
            let operation = update.spec.operation.clone().unwrap();
            [
                format!("status {}", state(status)),
                format!("create {operation}"),
            ]
        });
        let effects = self.plan.effects.iter().map(line);
        [self.plan.rule.to_owned()]
            .into_iter()
            .chain(created)
            .chain(effects)
            .chain([requeue])
            .collect()
    }

    fn request_names(&self) -> Vec<&'static str> {
        let name = |request: &StackStep| match request {
            StackStep::Read(StackRead::CurrentUpdate(_)) => "update",
            StackStep::Read(StackRead::Outputs(_)) => "outputs",
            StackStep::Write(StackWrite::PublishOutputs(_)) => "publish",
            StackStep::Read(StackRead::Source(_)) => "source",
            StackStep::Read(StackRead::ConfigMaps(_)) => "config maps",
            StackStep::Read(StackRead::Secrets(_)) => "secrets",
            StackStep::Read(StackRead::Prerequisites) => "prerequisites",
            StackStep::Read(StackRead::ExistingWorkspace(_)) => "existing workspace",
            StackStep::Write(StackWrite::ApplyWorkspace(..)) => "workspace",
            StackStep::Write(StackWrite::CreateUpdate(..)) => "create",
            StackStep::Finish(_) => unreachable!(),
        };
        self.requests.iter().map(name).collect()
    }
}

fn line(effect: &StackEffect) -> String {
    match effect {
        StackEffect::AddFinalizer => "add finalizer".to_owned(),
        StackEffect::RemoveFinalizer => "remove finalizer".to_owned(),
        StackEffect::PatchStatus(status) => format!("status {}", state(status)),
        StackEffect::ReleaseUpdate(name) => format!("release {name}"),
        StackEffect::DeleteUpdate(name) => format!("delete {name}"),
        StackEffect::DeleteWorkspace => "delete workspace".to_owned(),
        StackEffect::RequestPrerequisite { stack, value } => {
            format!("request {} {value}", stack.metadata.name.clone().unwrap())
        }
        StackEffect::PruneUpdates => "prune".to_owned(),
        StackEffect::Emit(event) => {
            let warning = if event.warning { "!" } else { "" };
            format!("event{warning} {}: {}", event.reason, event.message)
        }
    }
}

/// The versions of objects, the first one unless another is given.
fn versions(names: &BTreeSet<String>, given: &Versions) -> Versions {
    let version = |name: &String| given.get(name).cloned().unwrap_or(Some("1".to_owned()));
    names
        .iter()
        .map(|name| (name.clone(), version(name)))
        .collect()
}

/// What a user sees: Ready, or the condition with the reason why not.
fn state(status: &StackStatus) -> String {
    let shown = find(&status.conditions, Reconciling).or(find(&status.conditions, Stalled));
    match shown {
        Some(condition) => format!(
            "{} {}: {}",
            condition.type_, condition.reason, condition.message
        ),
        None if is_true(&status.conditions, Ready) => {
            let ready = find(&status.conditions, Ready).unwrap();
            match ready.reason.as_str() {
                "ProcessingCompleted" => "Ready".to_owned(),
                reason => format!("Ready {reason}: {}", ready.message),
            }
        }
        None => "nothing".to_owned(),
    }
}

/// Checks a table of sentences, cases and the lines they lead to.
fn check<const N: usize>(table: [(&str, StackFixture, &[&str]); N]) {
    for (sentence, fixture, expected) in table {
        assert_eq!(fixture.decide().lines(), expected, "{sentence}");
    }
}

fn unavailable(message: &str) -> Result<ProgramSource, SourceError> {
    Err(SourceError::Unavailable(message.to_owned()))
}

const PROCESSING: &str = "status Reconciling StackProcessing: stack is being processed";
const WAITING: &str = "status Reconciling StackProcessing: waiting for workspace readiness";
const CREATE_UP: &str = "create up";
const CREATE_DESTROY: &str = "create destroy";
const IN_FIVE_MINUTES: &str = "again in 300s";

#[test]
fn new_stack_gets_finalizer_first() {
    check([
        (
            "a Stack without our finalizer",
            fixture().unheld(),
            &["adopt", "add finalizer", "again in 1s"],
        ),
        (
            "a Stack whose finalizer was removed by hand while an Update ran",
            fixture().unheld().vanished(),
            &["adopt", "add finalizer", "again in 1s"],
        ),
    ]);
}

#[test]
fn undecodable_stack_is_reported_once() {
    let undecodable = |status: Value| {
        let stack = json!({
            "metadata": { "name": "demo", "namespace": "shop", "generation": 4 },
            "spec": { "stack": "dev", "config": [1, 2] },
            "status": status,
        });
        let decoded = pko_api::Decoded::<pko_api::Stack>::from_value(stack).unwrap();
        decode_plan(&decoded)
    };
    let before =
        json!({ "lastUpdate": { "name": "demo-1", "generation": 3 }, "outputs": { "url": 1 } });
    let outcome = undecodable(before);
    assert_eq!(
        outcome.lines(),
        [
            "undecodable",
            "status Stalled SpecInvalid: spec.config: [1,2]: invalid type: sequence, expected a map",
            "settled",
        ]
    );
    let status = outcome.status().unwrap();
    assert_eq!(status.observed_generation, Some(4));
    assert_eq!(
        status.last_update.as_ref().unwrap().name.as_deref(),
        Some("demo-1")
    );
    assert!(status.outputs.is_some(), "what is stored stays");
    let again = undecodable(serde_json::to_value(status).unwrap());
    assert_eq!(again.lines(), ["undecodable", "settled"]);
}

fn decode_plan(decoded: &pko_api::Decoded<pko_api::Stack>) -> StackOutcome {
    StackOutcome {
        requests: Vec::new(),
        plan: ObservedStack::decide_undecodable(decoded.as_result().unwrap_err(), now()),
    }
}
