//! The rules of the Workspace's table: the observed state, and the plan as text.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pko_api::{Decoded, auto::v1alpha1::WorkspaceStatus};
use serde_json::{Value, json};

use super::*;
use crate::{Plan, Requeue};

mod orphan;

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

/// A new Workspace with a running agent.
struct WorkspaceFixture {
    workspace: Value,
    awaited: bool,
    runtime: RuntimeState,
    version: Result<String, AgentError>,
    setup: SetupState,
}

struct WorkspaceOutcome {
    requests: Vec<WorkspaceStep>,
    plan: Plan<WorkspaceEffect>,
}

fn fixture() -> WorkspaceFixture {
    WorkspaceFixture {
        workspace: json!({ "metadata": { "name": "demo", "namespace": "shop", "generation": 2 } }),
        awaited: false,
        runtime: RuntimeState::Running(running()),
        version: Ok("3.259.0".into()),
        setup: SetupState::Done,
    }
}

fn running() -> AgentEndpoint {
    AgentEndpoint {
        address: "demo-workspace.shop:50051".into(),
        name: "pod \"demo-workspace-0\"".into(),
        is_outdated: false,
        requeue_after: Duration::from_mins(10),
    }
}

impl WorkspaceFixture {
    fn runtime(mut self, runtime: RuntimeState) -> Self {
        self.runtime = runtime;
        self
    }

    fn outdated(self) -> Self {
        self.runtime(RuntimeState::Running(AgentEndpoint {
            is_outdated: true,
            ..running()
        }))
    }

    fn version(mut self, version: &str) -> Self {
        self.version = Ok(version.into());
        self
    }

    fn unreachable(mut self, message: &str) -> Self {
        self.version = Err(AgentError::Unreachable(message.into()));
        self
    }

    fn refused(mut self, reason: &str, message: &str) -> Self {
        self.version = Err(AgentError::Refused {
            reason: reason.into(),
            message: message.into(),
        });
        self
    }

    fn setting_up(mut self, stage: SetupStage) -> Self {
        self.setup = SetupState::InProgress(stage);
        self
    }

    fn failed_at(mut self, stage: SetupStage, message: &str, is_transient: bool) -> Self {
        self.setup = SetupState::Failed {
            stage,
            message: message.into(),
            is_transient,
            retry_in: Duration::from_secs(90),
        };
        self
    }

    fn spec(mut self, spec: Value) -> Self {
        self.workspace["spec"] = spec;
        self
    }

    fn deleting(mut self) -> Self {
        self.workspace["metadata"]["deletionTimestamp"] = json!(ago(1));
        self
    }

    fn generation(mut self, generation: i64) -> Self {
        self.workspace["metadata"]["generation"] = json!(generation);
        self
    }

    /// The stored status is the earlier outcome of another fixture.
    fn after(mut self, before: &WorkspaceFixture) -> Self {
        let status = before.decide().status().cloned().unwrap();
        let mut status = serde_json::to_value(status).unwrap();
        for condition in status["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = json!(ago(1_000));
        }
        self.workspace["status"] = status;
        self
    }

    fn decide(&self) -> WorkspaceOutcome {
        let mut observed =
            ObservedWorkspace::new(serde_json::from_value(self.workspace.clone()).unwrap());
        let mut requests = Vec::new();
        loop {
            match observed.decide(now()) {
                WorkspaceStep::Finish(plan) => return WorkspaceOutcome { requests, plan },
                request => {
                    observed.observe(match &request {
                        WorkspaceStep::Finish(_) => unreachable!(),
                        WorkspaceStep::Read(WorkspaceRead::Awaited(_)) => {
                            WorkspaceResponse::Awaited(self.awaited)
                        }
                        WorkspaceStep::Write(WorkspaceWrite::EnsureRuntime) => {
                            WorkspaceResponse::Runtime(self.runtime.clone())
                        }
                        WorkspaceStep::Read(WorkspaceRead::Version) => {
                            WorkspaceResponse::Version(self.version.clone())
                        }
                        WorkspaceStep::Write(WorkspaceWrite::SetUp) => {
                            WorkspaceResponse::Setup(self.setup.clone())
                        }
                    });
                    requests.push(request);
                }
            }
        }
    }
}

impl WorkspaceOutcome {
    fn status(&self) -> Option<&WorkspaceStatus> {
        self.plan.effects.iter().find_map(|effect| match effect {
            WorkspaceEffect::PatchStatus(status) => Some(status.as_ref()),
            _ => None,
        })
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

fn line(effect: &WorkspaceEffect) -> String {
    match effect {
        WorkspaceEffect::PatchStatus(status) => format!("status {}", state(status)),
        WorkspaceEffect::RemoveRuntime => "remove".to_owned(),
        WorkspaceEffect::Delete => "delete".to_owned(),
        WorkspaceEffect::Emit(event) => {
            let warning = if event.warning { "!" } else { "" };
            format!("event{warning} {}: {}", event.reason, event.message)
        }
    }
}

/// The conditions, and the address if there is one.
fn state(status: &WorkspaceStatus) -> String {
    let conditions = status.conditions.iter().map(|condition| {
        format!(
            "{}={}/{} {}",
            condition.type_, condition.status, condition.reason, condition.message
        )
    });
    let address = status.address.iter().map(|address| format!("at {address}"));
    let parts: Vec<String> = conditions.chain(address).collect();
    parts.join(" ")
}

fn check<const N: usize>(table: [(&str, WorkspaceFixture, &[&str]); N]) {
    for (sentence, fixture, expected) in table {
        assert_eq!(fixture.decide().lines(), expected, "{sentence}");
    }
}

fn starting() -> WorkspaceFixture {
    fixture().runtime(RuntimeState::Starting("pulling".into()))
}

fn failed() -> WorkspaceFixture {
    fixture().runtime(RuntimeState::Failed("no memory".into()))
}

fn impossible() -> WorkspaceFixture {
    fixture().runtime(RuntimeState::Invalid(
        "spec.initContainers needs a pod".into(),
    ))
}

fn rolling() -> WorkspaceFixture {
    fixture().runtime(RuntimeState::Rolling("changing".into()))
}

const READY: &str = "status Ready=True/Succeeded  at demo-workspace.shop:50051";
const INITIALIZED: &str = "event Initialized: Initialized workspace pod \"demo-workspace-0\"";

#[test]
fn workspace_runtime_state_decides_the_status() {
    check([
        (
            "that is being made",
            starting(),
            &[
                "runtime",
                "status Ready=False/WaitingForReplicas pulling",
                "again in 1s",
            ],
        ),
        (
            "that is being replaced",
            rolling(),
            &[
                "runtime",
                "status Ready=False/RollingUpdate changing",
                "again in 30s",
            ],
        ),
        (
            "that was removed to be made anew",
            fixture().runtime(RuntimeState::Migrated),
            &[
                "runtime",
                "status Ready=False/RollingUpdate Waiting for the StatefulSet to be re-created",
                "event! Migrated: Replaced the workspace statefulset",
                "again in 1s",
            ],
        ),
        (
            "that could not be made this time",
            failed(),
            &[
                "runtime",
                "status Ready=False/WaitingForReplicas no memory",
                "again in 60s",
            ],
        ),
        (
            "that can't be made from this spec",
            impossible(),
            &[
                "runtime",
                "status Ready=False/InitializationFailed spec.initContainers needs a pod \
                 Stalled=True/InitializationFailed spec.initContainers needs a pod",
                "settled",
            ],
        ),
        (
            "or nobody who needs one",
            fixture().runtime(RuntimeState::Idle),
            &[
                "runtime",
                "status Ready=True/Idle scaled to zero until the next run",
                "settled",
            ],
        ),
    ]);
    for runtime in [starting(), rolling(), failed(), impossible()] {
        assert_eq!(
            runtime.decide().requests,
            [WorkspaceStep::Write(WorkspaceWrite::EnsureRuntime)],
            "no agent is asked"
        );
    }
}

#[test]
fn workspace_with_unreachable_agent_is_not_ready() {
    check([
        (
            "one that can't be reached",
            fixture().unreachable("no route"),
            &[
                "version",
                "status Ready=False/ConnectionFailed no route at demo-workspace.shop:50051",
                "event! ConnectionFailure: no route",
                "again in 1s",
            ],
        ),
        (
            "one that does not know us",
            fixture().refused("Unauthenticated", "unauthenticated"),
            &[
                "version",
                "status Ready=False/Unauthenticated unauthenticated at demo-workspace.shop:50051",
                "event! ConnectionFailure: unauthenticated",
                "again in 30s",
            ],
        ),
        (
            "one whose word is no reason",
            fixture().refused("not a reason!", "odd"),
            &[
                "version",
                "status Ready=False/ConnectionFailed odd at demo-workspace.shop:50051",
                "event! ConnectionFailure: odd",
                "again in 30s",
            ],
        ),
    ]);
    let binding = fixture().refused("Unauthenticated", "TokenReview API is unavailable");
    let outcome = binding.decide().lines().join(" ");
    assert!(
        outcome.contains("kubectl create clusterrolebinding"),
        "{outcome}"
    );
}

#[test]
fn incompatible_cli_stalls_the_workspace() {
    let number =
        json!({ "stacks": [{ "name": "dev", "config": [{ "key": "size", "value": 3 }] }] });
    let problem =
        "Pulumi CLI version 3.197.0 does not support JSON configuration, require >= v3.202.0";
    let old = fixture().spec(number.clone()).version("3.197.0");
    let stalled = format!(
        "status Ready=False/IncompatibleConfiguration {problem} \
         Stalled=True/IncompatibleConfiguration {problem} at demo-workspace.shop:50051"
    );
    let event = format!("event! StackInitializationFailure: {problem}");
    assert_eq!(
        old.decide().lines(),
        ["compatible", &stalled, &event, "settled"]
    );
    assert!(
        !old.decide()
            .requests
            .contains(&WorkspaceStep::Write(WorkspaceWrite::SetUp)),
        "nothing is installed for it"
    );
    let new = fixture().spec(number).version("3.202.0");
    assert_eq!(new.decide().plan.rule, "ready");
}

#[test]
fn workspace_setup_is_reported() {
    check([
        (
            "it installs",
            fixture().setting_up(SetupStage::Installing),
            &[
                "setup",
                "status Ready=False/Installing Installing packages and plugins required by the program \
                 at demo-workspace.shop:50051",
                "again in 60s",
            ],
        ),
        (
            "it selects stacks",
            fixture().setting_up(SetupStage::Initializing),
            &[
                "setup",
                "status Ready=False/Initializing Initializing and selecting a Pulumi stack \
                 at demo-workspace.shop:50051",
                "again in 60s",
            ],
        ),
        (
            "it could not install, and somebody has to act",
            fixture().failed_at(SetupStage::Installing, "no such package", false),
            &[
                "setup",
                "status Ready=False/InstallationFailed no such package \
                 Stalled=True/InstallationFailed no such package at demo-workspace.shop:50051",
                "event! InstallationFailure: no such package",
                "again in 90s",
            ],
        ),
        (
            "it could not install, and that may pass",
            fixture().failed_at(SetupStage::Installing, "503", true),
            &[
                "setup",
                "status Ready=False/InstallationFailed 503 at demo-workspace.shop:50051",
                "event! InstallationFailure: 503",
                "again in 90s",
            ],
        ),
        (
            "it could not select a stack",
            fixture().failed_at(
                SetupStage::Initializing,
                "Failed to initialize stack \"dev\": no",
                false,
            ),
            &[
                "setup",
                "status Ready=False/InitializationFailed Failed to initialize stack \"dev\": no \
                 Stalled=True/InitializationFailed Failed to initialize stack \"dev\": no \
                 at demo-workspace.shop:50051",
                "event! StackInitializationFailure: Failed to initialize stack \"dev\": no",
                "again in 90s",
            ],
        ),
    ]);
}

#[test]
fn setup_failure_stays_until_setup_succeeds() {
    for failed in [
        fixture().failed_at(SetupStage::Installing, "no registry", true),
        fixture().failed_at(SetupStage::Initializing, "no backend", false),
    ] {
        let again = fixture().setting_up(SetupStage::Installing).after(&failed);
        assert_eq!(
            again.decide().lines(),
            ["setup", "again in 60s"],
            "a try does not make it come and go"
        );
        let same = WorkspaceFixture {
            setup: failed.setup.clone(),
            ..fixture().after(&failed)
        };
        assert_eq!(
            same.decide().lines(),
            ["setup", "again in 90s"],
            "the same failure is told once"
        );
        let mended = fixture().after(&failed);
        assert_eq!(
            mended.decide().lines(),
            ["ready", READY, INITIALIZED, "again in 600s"]
        );
        let edited = fixture()
            .setting_up(SetupStage::Installing)
            .after(&failed)
            .generation(3);
        assert!(
            edited.decide().lines()[1].contains("Ready=False/Installing"),
            "an edit may have mended it"
        );
    }
}

#[test]
fn workspace_ready_is_reported_once() {
    let outcome = fixture().decide();
    assert_eq!(
        outcome.lines(),
        ["ready", READY, INITIALIZED, "again in 600s"]
    );
    let status = outcome.status().unwrap();
    assert_eq!(status.observed_generation, Some(2));
    assert_eq!(status.pulumi_version.as_deref(), Some("3.259.0"));
    assert_eq!(
        fixture().after(&fixture()).decide().lines(),
        ["ready", "again in 600s"],
        "nothing is written twice"
    );
}

#[test]
fn outdated_pod_is_ready_with_reason_outdated() {
    let outdated = "status Ready=True/Outdated created by another version of the operator; the next run gets a new pod \
                    at demo-workspace.shop:50051";
    check([
        (
            "from the beginning",
            fixture().outdated(),
            &["ready", outdated, INITIALIZED, "again in 600s"],
        ),
        (
            "after an upgrade of the operator",
            fixture().outdated().after(&fixture()),
            &["ready", outdated, "again in 600s"],
        ),
        (
            "until it was replaced",
            fixture().after(&fixture().outdated()),
            &["ready", READY, "again in 600s"],
        ),
    ]);
}

#[test]
fn ready_workspace_can_become_not_ready() {
    let was = |now: WorkspaceFixture| now.after(&fixture());
    check([
        (
            "its pod is gone, and its address",
            was(starting()),
            &[
                "runtime",
                "status Ready=False/WaitingForReplicas pulling",
                "again in 1s",
            ],
        ),
        (
            "its agent does not answer",
            was(fixture().unreachable("no route")),
            &[
                "version",
                "status Ready=False/ConnectionFailed no route at demo-workspace.shop:50051",
                "event! ConnectionFailure: no route",
                "again in 1s",
            ],
        ),
        (
            "its spec was edited, and it is ready for that",
            was(fixture()).generation(3),
            &["ready", READY, "again in 600s"],
        ),
        (
            "it is put to sleep",
            was(fixture().runtime(RuntimeState::Idle)),
            &[
                "runtime",
                "status Ready=True/Idle scaled to zero until the next run",
                "settled",
            ],
        ),
        (
            "it is woken up, in a pod that is prepared anew",
            fixture().after(&fixture().runtime(RuntimeState::Idle)),
            &["ready", READY, INITIALIZED, "again in 600s"],
        ),
    ]);
}

#[test]
fn stalled_is_removed_with_a_new_spec() {
    let mended = starting().after(&impossible()).generation(3).decide();
    assert_eq!(
        mended.lines()[1],
        "status Ready=False/WaitingForReplicas pulling"
    );
    let ready = fixture().after(&impossible()).generation(3).decide();
    assert_eq!(ready.lines()[1], READY);
}

#[test]
fn unchanged_status_is_not_written() {
    let asleep = || fixture().runtime(RuntimeState::Idle);
    let silent = || fixture().unreachable("no route");
    for (fixture, before, expected) in [
        (starting(), starting(), ["runtime", "again in 1s"]),
        (rolling(), rolling(), ["runtime", "again in 30s"]),
        (failed(), failed(), ["runtime", "again in 60s"]),
        (impossible(), impossible(), ["runtime", "settled"]),
        (asleep(), asleep(), ["runtime", "settled"]),
        (silent(), silent(), ["version", "again in 1s"]),
        (
            fixture().outdated(),
            fixture().outdated(),
            ["ready", "again in 600s"],
        ),
        (
            fixture().deleting(),
            fixture().deleting(),
            ["deleting", "settled"],
        ),
    ] {
        assert_eq!(fixture.after(&before).decide().lines(), expected);
    }
}

#[test]
fn transition_time_moves_only_with_the_status() {
    let outcome = failed().after(&starting()).decide();
    let ready = &outcome.status().unwrap().conditions[0];
    assert_eq!(
        ready.last_transition_time.0,
        now() - SignedDuration::from_secs(1_000)
    );
    let outcome = fixture().after(&starting()).decide();
    assert_eq!(
        outcome.status().unwrap().conditions[0]
            .last_transition_time
            .0,
        now()
    );
    let broken = |message| fixture().failed_at(SetupStage::Installing, message, false);
    let outcome = broken("other").after(&broken("no registry")).decide();
    let stalled = &outcome.status().unwrap().conditions[1];
    assert_eq!(stalled.message, "other");
    assert_eq!(
        stalled.last_transition_time.0,
        now() - SignedDuration::from_secs(1_000)
    );
}

#[test]
fn deleted_workspace_removes_its_runtime() {
    let outcome = fixture().deleting().decide();
    assert_eq!(
        outcome.lines(),
        [
            "deleting",
            "remove",
            "status Ready=False/Deleting Workspace is being deleted",
            "settled"
        ]
    );
    assert_eq!(outcome.requests, []);
}

#[test]
fn undecodable_workspace_is_reported_once() {
    let object = |status: Value| {
        let object = json!({
            "metadata": { "name": "bad", "generation": 2 }, "spec": { "pulumiLogLevel": -1 }, "status": status,
        });
        match Decoded::<Workspace>::from_value(object).unwrap() {
            Decoded::Undecodable(undecodable) => *undecodable,
            Decoded::Object(object) => panic!("decoded: {object:?}"),
        }
    };
    let now = Timestamp::from_second(1).unwrap();
    let plan = ObservedWorkspace::decide_undecodable(&object(json!({})), now);
    let [WorkspaceEffect::PatchStatus(status)] = plan.effects.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(status.observed_generation, Some(2));
    let shown: Vec<String> = status
        .conditions
        .iter()
        .map(|condition| {
            format!(
                "{}={} {}",
                condition.type_, condition.status, condition.reason
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            "Ready=False InitializationFailed",
            "Stalled=True InitializationFailed"
        ]
    );
    assert!(
        status.conditions[1]
            .message
            .starts_with("spec.pulumiLogLevel: -1"),
        "{status:?}"
    );
    let again = ObservedWorkspace::decide_undecodable(&object(json!(status)), now);
    assert_eq!((again.rule, again.effects.len()), ("undecodable", 0));
}
