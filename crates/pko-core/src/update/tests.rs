//! Each rule of the Update's table: what is given, and what is done, as text.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use pko_api::{
    Decoded,
    auto::v1alpha1::{ProjectInfo, UpdateStatus},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    Plan,
    queue::{Reason, Turn, Wait},
};

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

/// A new Update of a Workspace that is ready; its run goes on.
struct Given {
    update: Value,
    workspace: Option<Value>,
    turn: Turn,
    run: Result<Run, RunError>,
}

struct Told {
    asked: Vec<Question>,
    plan: Plan<Effect>,
}

fn given() -> Given {
    Given {
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
        workspace: Some(json!({
            "metadata": { "name": "demo", "generation": 1 },
            "status": { "observedGeneration": 1, "conditions": [condition("Ready", "True", "Succeeded")] },
        })),
        turn: Turn::Go,
        run: Ok(Run::Running),
    }
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

impl Given {
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

    fn progressing(self) -> Self {
        let not_yet = ("False", "Progressing");
        self.conditions(("True", "Progressing"), not_yet, not_yet)
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

    fn orphaned(self) -> Self {
        self.with(json!({ "metadata": { "ownerReferences": [{
            "apiVersion": "pulumi.com/v1", "kind": "Stack", "name": "demo", "uid": "s",
        }] } }))
    }

    fn lifetime(self, duration: &str) -> Self {
        self.with(json!({ "spec": { "ttlAfterCompleted": duration } }))
    }

    fn run(mut self, run: Result<Run, RunError>) -> Self {
        self.run = run;
        self
    }

    fn ended(self, outcome: RunOutcome) -> Self {
        self.run(Ok(Run::Ended(outcome)))
    }

    fn unreachable(self) -> Self {
        self.run(Err(RunError::Unreachable("no route".into())))
    }

    fn workspace(mut self, workspace: Option<Value>) -> Self {
        self.workspace = workspace;
        self
    }

    fn workspace_not_ready(self) -> Self {
        self.workspace(Some(
            json!({ "metadata": { "name": "demo", "generation": 1 } }),
        ))
    }

    fn told(&self) -> Told {
        let mut world = World::new(serde_json::from_value(self.update.clone()).unwrap());
        let mut asked = Vec::new();
        loop {
            match decide(&world, now()) {
                crate::Step::Ask(question) => {
                    world.learn(match &question {
                        Question::Workspace(_) => Answer::Workspace(
                            self.workspace
                                .clone()
                                .map(|object| serde_json::from_value(object).unwrap()),
                        ),
                        Question::Turn(_) => Answer::Turn(self.turn.clone()),
                        Question::Run(..) => Answer::Run(self.run.clone()),
                    });
                    asked.push(question);
                }
                crate::Step::Finish(plan) => return Told { asked, plan },
            }
        }
    }
}

impl Told {
    fn status(&self) -> Option<&UpdateStatus> {
        self.plan.effects.iter().find_map(|effect| match effect {
            Effect::PatchStatus(status) => Some(status.as_ref()),
            _ => None,
        })
    }

    /// The status that is published before the run is asked for.
    fn published(&self) -> Option<String> {
        self.asked.iter().find_map(|question| match question {
            Question::Run(_, Some(status)) => Some(state(status)),
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

fn line(effect: &Effect) -> String {
    match effect {
        Effect::PatchStatus(status) => format!("status {}", state(status)),
        Effect::Adopt(owner) => format!("adopted by {} {}", owner.kind, owner.name),
        Effect::CreateOutputs(secret) => {
            format!("outputs {}", secret.metadata.name.clone().unwrap())
        }
        Effect::FollowRun => "follow".to_owned(),
        Effect::CancelRun => "cancel".to_owned(),
        Effect::AcknowledgeRun => "acknowledge".to_owned(),
        Effect::Delete => "delete".to_owned(),
        Effect::Emit(event) => {
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

fn check<const N: usize>(table: [(&str, Given, &[&str]); N]) {
    for (sentence, given, expected) in table {
        assert_eq!(given.told().lines(), expected, "{sentence}");
    }
}

const PROGRESSING: &str =
    "Progressing=True/Progressing Failed=False/Progressing Complete=False/Progressing";

fn waiting(reason: &str) -> String {
    format!("status Progressing=False/{reason} Failed=False/Progressing Complete=False/Progressing")
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

#[test]
fn an_update_that_is_over_stays_for_its_time_to_live() {
    let kept: &[&str] = &["expire", "settled"];
    check([
        ("without one it stays for ever", given().complete(), kept),
        (
            "it has some left",
            given().complete().lifetime("1h"),
            &["expire", "again in 2600s"],
        ),
        (
            "it is over",
            given().complete().lifetime("1000s"),
            &[
                "expire",
                "delete",
                "event UpdateExpired: ttl expired and was deleted",
                "settled",
            ],
        ),
        (
            "it is none",
            given().complete().lifetime("-1h"),
            &[
                "expire",
                "delete",
                "event UpdateExpired: ttl expired and was deleted",
                "settled",
            ],
        ),
        (
            "it is being deleted already",
            given().complete().lifetime("1000s").deleting(),
            kept,
        ),
        ("it lost its owner", given().complete().orphaned(), kept),
        (
            "an operation that there is not",
            given()
                .complete()
                .with(json!({ "spec": { "type": "odd" } })),
            kept,
        ),
    ]);
    assert_eq!(given().complete().told().asked, []);
}

#[test]
fn an_update_that_never_had_an_owner_is_adopted() {
    let alone = |given: Given| given.with(json!({ "metadata": { "ownerReferences": null } }));
    let not_found = waiting("WorkspaceNotFound");
    let canceled = aborted("Canceled", "the Update was deleted, or its Workspace was");
    check([
        (
            "new",
            alone(given()),
            &["adopt", "adopted by Workspace demo", "again in 30s"],
        ),
        (
            "before there is a Workspace",
            alone(given()).workspace(None),
            &["adopt", &not_found, "again in 30s"],
        ),
        (
            "once there is one",
            alone(given().waiting("WorkspaceNotFound")),
            &["adopt", "adopted by Workspace demo", "again in 30s"],
        ),
        (
            "one that has begun has lost its owner",
            alone(given().progressing()),
            &["canceled", "cancel", &canceled, "settled"],
        ),
        (
            "one that is being deleted",
            alone(given()).deleting(),
            &["canceled", &canceled, "settled"],
        ),
    ]);
}

#[test]
fn an_update_that_is_deleted_or_orphaned_ends() {
    let message = "the Update was deleted, or its Workspace was";
    let canceled = aborted("Canceled", message);
    let before: &[&str] = &["canceled", &canceled, "settled"];
    let running: &[&str] = &["canceled", "cancel", &canceled, "settled"];
    check([
        (
            "deleted before anything was done",
            given().deleting(),
            before,
        ),
        (
            "orphaned before anything was done",
            given().orphaned(),
            before,
        ),
        (
            "deleted while it runs",
            given().progressing().deleting(),
            running,
        ),
        (
            "orphaned while it runs",
            given().progressing().orphaned().workspace(None),
            running,
        ),
        (
            "deleted while its agent can't be reached",
            given().waiting("TransientFailure").deleting(),
            running,
        ),
        (
            "with a time to live",
            given().deleting().lifetime("1h"),
            &["canceled", &canceled, "again in 3600s"],
        ),
    ]);
    assert_eq!(given().deleting().told().asked, []);
    let asked = given().progressing().deleting().told().asked;
    assert_eq!(
        asked,
        [Question::Workspace("demo".into())],
        "which agent is to be told"
    );
}

#[test]
fn an_operation_that_there_is_not_fails_by_name() {
    let unknown = aborted(
        "UpdateFailed",
        "spec.type: \"import\" is none of preview, up, refresh and destroy",
    );
    let missing = aborted(
        "UpdateFailed",
        "spec.type is missing: one of preview, up, refresh and destroy",
    );
    check([
        (
            "unknown",
            given().with(json!({ "spec": { "type": "import" } })),
            &["unknown-operation", &unknown, "settled"],
        ),
        (
            "missing",
            given()
                .with(json!({ "spec": { "type": null } }))
                .lifetime("1h"),
            &["unknown-operation", &missing, "again in 3600s"],
        ),
    ]);
}

#[test]
fn an_update_waits_for_its_workspace() {
    let not_found = waiting("WorkspaceNotFound");
    let not_ready = waiting("WorkspaceNotReady");
    let gone = aborted("Aborted", "the Workspace is gone, and the run with it");
    check([
        ("missing", given().workspace(None), &["await-workspace", &not_found, "again in 30s"]),
        (
            "missing, and told before",
            given().workspace(None).waiting("WorkspaceNotFound"),
            &["await-workspace", "again in 30s"],
        ),
        ("not ready", given().workspace_not_ready(), &["await-workspace", &not_ready, "again in 30s"]),
        (
            "ready for another spec",
            given().workspace(Some(json!({
                "metadata": { "name": "demo", "generation": 2 },
                "status": { "observedGeneration": 1, "conditions": [condition("Ready", "True", "Succeeded")] },
            }))),
            &["await-workspace", &not_ready, "again in 30s"],
        ),
        (
            "not ready any more, after the agent could not be reached",
            given().workspace_not_ready().waiting("TransientFailure"),
            &["await-workspace", &not_ready, "again in 30s"],
        ),
        (
            "not ready any more, while the run goes on",
            given().workspace_not_ready().progressing(),
            &["run", "follow", "again in 60s"],
        ),
        (
            "not ready any more, and the run can't be found",
            given().workspace_not_ready().progressing().unreachable(),
            &["run", &not_ready, "again in 30s"],
        ),
        (
            "gone, and the run with it",
            given().workspace(None).progressing(),
            &["await-workspace", &gone, "settled"],
        ),
    ]);
}

#[test]
fn a_run_waits_for_its_turn() {
    let held = |before| {
        let reason = Reason::Cluster(2);
        Given {
            turn: Turn::Wait(Wait { before, reason }),
            ..given()
        }
    };
    let told = held(3).told();
    let condition = &told.status().unwrap().conditions[0];
    assert_eq!(
        (&*condition.reason, &*condition.status),
        ("Queued", "False")
    );
    assert_eq!(
        condition.message,
        "waiting for its turn: 2 runs are under way in the cluster, which is the limit; 3 runs are before it"
    );
    assert_eq!(
        told.plan.requeue,
        Requeue::after(std::time::Duration::from_secs(30))
    );
    assert!(
        !told
            .asked
            .iter()
            .any(|question| matches!(question, Question::Run(..)))
    );
    let begun = |given: &Given| {
        let asked = given.told().asked;
        asked.into_iter().find_map(|question| match question {
            Question::Turn(question) => Some(question.has_begun),
            _ => None,
        })
    };
    assert_eq!(begun(&given()), Some(false));
    assert_eq!(begun(&given().progressing()), Some(true));
    assert_eq!(
        begun(&given().workspace_not_ready()),
        None,
        "it can't run anyway"
    );
}

#[test]
fn a_run_is_started_and_followed() {
    let new = given().told();
    assert_eq!(
        new.published().as_deref(),
        Some(PROGRESSING),
        "before it is started"
    );
    assert_eq!(
        new.lines(),
        ["run", "follow", "again in 60s"],
        "and not written again"
    );

    let found = given().progressing().told();
    assert_eq!(found.published(), None, "it is stored already");
    assert_eq!(found.lines(), ["run", "follow", "again in 60s"]);
}

#[test]
fn an_agent_that_can_not_be_reached_is_tried_again_without_flapping() {
    let transient = waiting("TransientFailure");
    let first = given().unreachable().told();
    assert_eq!(first.lines(), ["run", &transient, "again in 5s"]);
    let message = &first.status().unwrap().conditions[0].message;
    assert_eq!(message, "no route");

    let running = given().progressing().unreachable().told();
    assert_eq!(running.lines(), ["run", &transient, "again in 5s"]);

    let mut again = given().unreachable();
    again.update["status"] = serde_json::to_value(first.status()).unwrap();
    assert_eq!(again.told().published(), None);
    assert_eq!(again.told().lines(), ["run", "again in 5s"]);

    let reached = again.run(Ok(Run::Running)).told();
    assert_eq!(reached.published(), None);
    let progressing = format!("status {PROGRESSING}");
    assert_eq!(
        reached.lines(),
        ["run", &progressing, "follow", "again in 60s"]
    );
}

#[test]
fn a_run_that_succeeded_is_recorded_outputs_first() {
    let outputs = BTreeMap::from([(
        "url".to_owned(),
        Output {
            json: b"1".to_vec(),
            secret: false,
        },
    )]);
    let outcome = RunOutcome {
        message: "all fine".into(),
        start: Some(now() - SignedDuration::from_secs(60)),
        end: Some(now()),
        permalink: Some("https://x/1".into()),
        project: Some(ProjectInfo {
            name: "hello".into(),
            runtime: "yaml".into(),
        }),
        outputs,
        ..succeeded()
    };
    let told = given().progressing().lifetime("24h").ended(outcome).told();
    assert_eq!(
        told.lines(),
        [
            "run",
            "outputs demo-1-stack-outputs",
            "status Progressing=False/Complete Failed=False/UpdateSucceeded Complete=True/Updated all fine",
            "acknowledge",
            "event UpdateSucceeded: Updated stack \"dev\"",
            "again in 86400s",
        ]
    );
    let mut status = serde_json::to_value(told.status().unwrap()).unwrap();
    let conditions = status
        .as_object_mut()
        .unwrap()
        .remove("conditions")
        .unwrap();
    assert_eq!(
        status,
        json!({
            "observedGeneration": 2,
            "startTime": "2023-11-14T22:12:20Z",
            "endTime": "2023-11-14T22:13:20Z",
            "permalink": "https://x/1",
            "message": "all fine",
            "outputs": "demo-1-stack-outputs",
            "projectInfo": { "name": "hello", "runtime": "yaml" },
        })
    );
    let times: Vec<&Value> = (0..3)
        .map(|index| &conditions[index]["lastTransitionTime"])
        .collect();
    let (then, just_now) = (json!("2023-11-14T21:56:40Z"), json!("2023-11-14T22:13:20Z"));
    assert_eq!(
        times,
        [&just_now, &then, &just_now],
        "a time moves with its status only"
    );
}

#[test]
fn a_run_that_failed_is_recorded_by_its_reason() {
    for (reason, expected) in [
        (Some("UpdateConflict"), "UpdateConflict"),
        (None, "UpdateFailed"),
        (Some("exit status 255"), "UpdateFailed"),
        (Some(""), "UpdateFailed"),
    ] {
        let outcome = RunOutcome {
            reason: reason.map(str::to_owned),
            message: "stack is locked".into(),
            ..RunOutcome::default()
        };
        let status = format!(
            "status Progressing=False/Complete Failed=True/{expected} Complete=True/Updated stack is locked"
        );
        assert_eq!(
            given().ended(outcome).told().lines(),
            [
                "run",
                &status,
                "acknowledge",
                "event! UpdateFailed: Failed to update stack \"dev\"",
                "settled"
            ]
        );
    }
}

#[test]
fn a_run_that_the_agent_refused_has_failed() {
    let refused = given().run(Err(RunError::Refused("no such stack".into())));
    assert_eq!(
        refused.told().lines(),
        [
            "run",
            "status Progressing=False/Complete Failed=True/UpdateFailed Complete=True/Updated no such stack",
            "acknowledge",
            "event! UpdateFailed: Failed to update stack \"dev\"",
            "settled",
        ]
    );
}

#[test]
fn each_operation_has_its_own_event() {
    for (operation, done, failed) in [
        ("up", "Updated", "update"),
        ("preview", "Previewed", "preview"),
        ("refresh", "Refreshed", "refresh"),
        ("destroy", "Destroyed", "destroy"),
    ] {
        let event = |outcome| {
            let given = given().with(json!({ "spec": { "type": operation } }));
            given.ended(outcome).told().lines()[3].clone()
        };
        assert_eq!(
            event(succeeded()),
            format!("event UpdateSucceeded: {done} stack \"dev\"")
        );
        let expected = format!("event! UpdateFailed: Failed to {failed} stack \"dev\"");
        assert_eq!(event(RunOutcome::default()), expected);
    }
}

#[test]
fn a_message_that_would_not_fit_is_shortened() {
    let outcome = RunOutcome {
        message: "x".repeat(2_000_000),
        ..RunOutcome::default()
    };
    let told = given().ended(outcome).told();
    assert!(told.status().unwrap().message.as_ref().unwrap().len() < 40_000);
}

#[test]
fn what_does_not_decode_says_so_once() {
    let object = |status: Value| {
        let object = json!({
            "metadata": { "name": "bad", "generation": 2 }, "spec": { "ttlAfterCompleted": "abc" }, "status": status,
        });
        match Decoded::<pko_api::Update>::from_value(object).unwrap() {
            Decoded::Undecodable(undecodable) => *undecodable,
            Decoded::Object(object) => panic!("decoded: {object:?}"),
        }
    };
    let now = Timestamp::from_second(1).unwrap();
    let plan = decide_undecodable(&object(json!({})), now);
    let [Effect::PatchStatus(status)] = plan.effects.as_slice() else {
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
            "Progressing=False Failed",
            "Failed=True UpdateFailed",
            "Complete=True Failed"
        ]
    );
    assert!(
        status
            .message
            .as_deref()
            .unwrap()
            .starts_with("spec.ttlAfterCompleted: \"abc\""),
        "{status:?}"
    );
    let again = decide_undecodable(&object(json!(status)), now);
    assert_eq!((again.rule, again.effects.len()), ("undecodable", 0));
}
