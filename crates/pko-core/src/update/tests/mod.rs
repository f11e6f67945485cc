//! The rules of the Update's table: the observed state, and the plan as text.

mod cancel;
mod finalizer;
mod interrupted_runs;
mod result;
mod run;
mod run_deadline;
mod scenarios;
mod waiting;

use jiff::{SignedDuration, Timestamp};
use pko_api::auto::v1alpha1::UpdateStatus;
use serde_json::{Value, json};

use super::*;
use crate::{Plan, Requeue, run_queue::Admission};

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": ago(1_000),
    })
}

/// The instance of the workspace.
const HERE: &str = "pod-1";

/// A new Update in a ready Workspace, with a running run.
struct UpdateFixture {
    update: Value,
    is_awaited: bool,
    workspace: Option<Value>,
    turn: Admission,
    agent: AgentState,
    run: Result<RunProgress, RunError>,
    outputs: Result<(), String>,
    preceding_runs: PrecedingRuns,
    run_timeout: Option<std::time::Duration>,
    leading_since: Timestamp,
}

struct UpdateOutcome {
    requests: Vec<UpdateStep>,
    plan: Plan<UpdateEffect>,
}

fn fixture() -> UpdateFixture {
    UpdateFixture {
        update: json!({
            "metadata": {
                "name": "demo-1", "namespace": "shop", "uid": "u", "generation": 2,
                "ownerReferences": [{
                    "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Workspace", "name": "demo", "uid": "w",
                    "controller": true,
                }],
            },
            "spec": { "workspaceName": "demo", "stackName": "dev", "type": "up" },
        }),
        is_awaited: false,
        workspace: Some(json!({
            "metadata": { "name": "demo", "generation": 1 },
            "status": { "observedGeneration": 1, "conditions": [condition("Ready", "True", "Succeeded")] },
        })),
        turn: Admission::Admitted,
        agent: AgentState::Reachable(HERE.to_owned()),
        run: Ok(RunProgress::Running),
        outputs: Ok(()),
        preceding_runs: PrecedingRuns::Ended(None),
        run_timeout: None,
        leading_since: now() - SignedDuration::from_hours(1),
    }
}

/// Merges one object over another, deeply.
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

impl UpdateFixture {
    fn with(mut self, object: Value) -> Self {
        merge(&mut self.update, object);
        self
    }

    fn conditions(
        self,
        progressing: (&str, &str),
        failed: (&str, &str),
        complete: (&str, &str),
    ) -> Self {
        self.with(json!({ "status": { "observedGeneration": 2, "conditions": [
            condition("Progressing", progressing.0, progressing.1),
            condition("Failed", failed.0, failed.1),
            condition("Complete", complete.0, complete.1),
        ] } }))
    }

    /// The run has started.
    fn progressing(self) -> Self {
        let not_yet = ("False", "Progressing");
        self.conditions(("True", "Progressing"), not_yet, not_yet)
            .with(json!({ "status": { "workspaceInstance": HERE } }))
    }

    fn annotated(self, value: &str) -> Self {
        let annotations = json!({ "auto.pulumi.com/cancel": value });
        self.with(json!({ "metadata": { "annotations": annotations } }))
    }

    fn waiting(self, reason: &str) -> Self {
        let not_yet = ("False", "Progressing");
        self.conditions(("False", reason), not_yet, not_yet)
    }

    fn complete(self) -> Self {
        self.conditions(
            ("False", "Complete"),
            ("False", "UpdateSucceeded"),
            ("True", "Updated"),
        )
    }

    fn deleting(self) -> Self {
        self.with(json!({ "metadata": { "deletionTimestamp": ago(5) } }))
    }

    /// The Stack waits for its result.
    fn awaited(mut self) -> Self {
        self.is_awaited = true;
        self
    }

    fn orphaned(self) -> Self {
        self.with(json!({ "metadata": { "ownerReferences": [{
            "apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "demo", "uid": "s",
        }] } }))
    }

    fn lifetime(self, duration: &str) -> Self {
        self.with(json!({ "spec": { "ttlAfterCompleted": duration } }))
    }

    fn run(mut self, run: Result<RunProgress, RunError>) -> Self {
        self.run = run;
        self
    }

    fn ended(self, outcome: RunOutcome) -> Self {
        self.run(Ok(RunProgress::Ended(Box::new(outcome))))
    }

    /// The agent does not respond.
    fn unreachable(self, instance: Option<&str>) -> Self {
        self.agent(AgentState::Unreachable {
            instance: instance.map(str::to_owned),
            message: "no route".into(),
        })
    }

    /// Another pod.
    fn replaced(self) -> Self {
        self.agent(AgentState::Reachable("pod-2".to_owned()))
    }

    fn agent(mut self, agent: AgentState) -> Self {
        self.agent = agent;
        self
    }

    fn workspace(mut self, workspace: Option<Value>) -> Self {
        self.workspace = workspace;
        self
    }

    fn destroying(self) -> Self {
        self.with(json!({ "spec": { "type": "destroy" } }))
    }

    fn workspace_ready(self, reason: &str) -> Self {
        self.workspace(Some(json!({
            "metadata": { "name": "demo", "generation": 1 },
            "status": { "observedGeneration": 1, "conditions": [condition("Ready", "True", reason)] },
        })))
    }

    fn workspace_not_ready(self) -> Self {
        self.workspace(Some(
            json!({ "metadata": { "name": "demo", "generation": 1 } }),
        ))
    }

    fn decide(&self) -> UpdateOutcome {
        let update = serde_json::from_value(self.update.clone()).unwrap();
        let mut observed =
            ObservedUpdate::new(update, self.leading_since).with_run_timeout(self.run_timeout);
        let mut requests = Vec::new();
        loop {
            match observed.decide(now()) {
                UpdateStep::Finish(plan) => return UpdateOutcome { requests, plan },
                request => {
                    observed.observe(match &request {
                        UpdateStep::Finish(_) => unreachable!(),
                        UpdateStep::Read(UpdateRead::Awaited(_)) => {
                            UpdateResponse::Awaited(self.is_awaited)
                        }
                        UpdateStep::Read(UpdateRead::Workspace(_)) => UpdateResponse::Workspace(
                            self.workspace
                                .clone()
                                .map(|object| serde_json::from_value(object).unwrap()),
                        ),
                        UpdateStep::Read(UpdateRead::PrecedingRuns) => {
                            UpdateResponse::PrecedingRuns(self.preceding_runs)
                        }
                        UpdateStep::Write(UpdateWrite::Admit(_)) => {
                            UpdateResponse::Admission(self.turn.clone())
                        }
                        UpdateStep::Write(UpdateWrite::AcquireAgent(_)) => {
                            UpdateResponse::Agent(self.agent.clone())
                        }
                        UpdateStep::Write(
                            UpdateWrite::StartRun(..) | UpdateWrite::CancelRun(_),
                        ) => UpdateResponse::Run(self.run.clone()),
                        UpdateStep::Write(UpdateWrite::StoreOutputs(secret)) => {
                            let name = secret.metadata.name.clone().unwrap();
                            UpdateResponse::Outputs(self.outputs.clone().map(|()| name))
                        }
                    });
                    requests.push(request);
                }
            }
        }
    }
}

impl UpdateOutcome {
    fn status(&self) -> Option<&UpdateStatus> {
        self.plan.effects.iter().find_map(|effect| match effect {
            UpdateEffect::PatchStatus(status) => Some(status.as_ref()),
            _ => None,
        })
    }

    /// The status that is published before the run starts.
    fn published(&self) -> Option<String> {
        self.requests.iter().find_map(|request| match request {
            UpdateStep::Write(UpdateWrite::StartRun(_, Some(status))) => Some(state(status)),
            _ => None,
        })
    }

    /// The names of the requests, in order.
    fn request_names(&self) -> Vec<&'static str> {
        let name = |request: &UpdateStep| match request {
            UpdateStep::Read(UpdateRead::Awaited(_)) => "awaited",
            UpdateStep::Read(UpdateRead::Workspace(_)) => "workspace",
            UpdateStep::Read(UpdateRead::PrecedingRuns) => "preceding runs",
            UpdateStep::Write(UpdateWrite::Admit(_)) => "admission",
            UpdateStep::Write(UpdateWrite::AcquireAgent(_)) => "agent",
            UpdateStep::Write(UpdateWrite::StartRun(..)) => "run",
            UpdateStep::Write(UpdateWrite::CancelRun(_)) => "cancel",
            UpdateStep::Write(UpdateWrite::StoreOutputs(_)) => "outputs",
            UpdateStep::Finish(_) => unreachable!(),
        };
        self.requests.iter().map(name).collect()
    }

    fn lines(&self) -> Vec<String> {
        let requeue = match self.plan.requeue {
            Requeue::Settled => "settled".to_owned(),
            Requeue::After(delay) => format!("again in {delay:?}"),
        };
        let effects = self.plan.effects.iter().map(line);
        let rule = self.plan.rule.to_owned();
        [rule].into_iter().chain(effects).chain([requeue]).collect()
    }
}

fn line(effect: &UpdateEffect) -> String {
    match effect {
        UpdateEffect::PatchStatus(status) => format!("status {}", state(status)),
        UpdateEffect::Adopt(owner) => format!("adopted by {} {}", owner.kind, owner.name),
        UpdateEffect::ReleaseAdmission => "release admission".to_owned(),
        UpdateEffect::WatchRun => "watch run".to_owned(),
        UpdateEffect::EmitWorkspaceWarning(message) => {
            format!("warning about the workspace: {message}")
        }
        UpdateEffect::AcknowledgeRun => "acknowledge".to_owned(),
        UpdateEffect::Delete => "delete".to_owned(),
        UpdateEffect::RemoveFinalizer => "remove finalizer".to_owned(),
        UpdateEffect::Emit(event) => {
            let warning = if event.warning { "!" } else { "" };
            format!("event{warning} {}: {}", event.reason, event.message)
        }
    }
}

/// The three conditions by status and reason, and the message if there is one.
fn state(status: &UpdateStatus) -> String {
    let conditions: Vec<String> = status
        .conditions
        .iter()
        .map(|condition| {
            format!(
                "{}={}/{}",
                condition.type_, condition.status, condition.reason
            )
        })
        .collect();
    let message = status.message.clone().unwrap_or_default();
    [conditions.join(" "), message].join(" ").trim().to_owned()
}

fn check<const N: usize>(table: [(&str, UpdateFixture, &[&str]); N]) {
    for (sentence, fixture, expected) in table {
        assert_eq!(fixture.decide().lines(), expected, "{sentence}");
    }
}

const PROGRESSING: &str =
    "Progressing=True/Progressing Failed=False/Progressing Complete=False/Progressing";

fn waiting(reason: &str) -> String {
    format!("status Progressing=False/{reason} Failed=False/Progressing Complete=False/Progressing")
}

const FAILED: &str = "event! UpdateFailed: Failed to update stack \"dev\"";

fn unreached() -> &'static str {
    "status Progressing=True/TransientFailure Failed=False/Progressing Complete=False/Progressing"
}

fn aborted(reason: &str, message: &str) -> String {
    format!("status Progressing=False/Failed Failed=True/{reason} Complete=True/Failed {message}")
}

fn succeeded() -> RunOutcome {
    RunOutcome {
        succeeded: true,
        ..RunOutcome::default()
    }
}
