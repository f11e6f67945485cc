//! Each rule of the Workspace's table: what is given, and what is done, as text.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use pko_api::{Decoded, auto::v1alpha1::WorkspaceStatus};
use serde_json::{Value, json};

use super::*;
use crate::Plan;

mod abandoned;

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

/// A new Workspace whose place runs and whose agent answers.
struct Given {
    workspace: Value,
    awaited: bool,
    place: Place,
    version: Result<String, AgentError>,
    preparation: Preparation,
}

struct Told {
    asked: Vec<Question>,
    plan: Plan<Effect>,
}

fn given() -> Given {
    Given {
        workspace: json!({ "metadata": { "name": "demo", "namespace": "shop", "generation": 2 } }),
        awaited: false,
        place: Place::Running(running()),
        version: Ok("3.259.0".into()),
        preparation: Preparation::Done,
    }
}

fn running() -> Running {
    Running {
        address: "demo-workspace.shop:50051".into(),
        name: "pod \"demo-workspace-0\"".into(),
        is_outdated: false,
        look_again: Duration::from_mins(10),
    }
}

impl Given {
    fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    fn outdated(self) -> Self {
        self.place(Place::Running(Running {
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

    fn at_work(mut self, stage: Stage) -> Self {
        self.preparation = Preparation::UnderWay(stage);
        self
    }

    fn failed_at(mut self, stage: Stage, message: &str, is_transient: bool) -> Self {
        self.preparation = Preparation::Failed {
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

    /// The stored status is what this other case leads to, a while ago.
    fn after(mut self, before: &Given) -> Self {
        let status = before.told().status().cloned().unwrap();
        let mut status = serde_json::to_value(status).unwrap();
        for condition in status["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = json!(ago(1_000));
        }
        self.workspace["status"] = status;
        self
    }

    fn told(&self) -> Told {
        let mut world = World::new(serde_json::from_value(self.workspace.clone()).unwrap());
        let mut asked = Vec::new();
        loop {
            match decide(&world, now()) {
                crate::Step::Ask(question) => {
                    world.learn(match &question {
                        Question::Awaited(_) => Answer::Awaited(self.awaited),
                        Question::Place => Answer::Place(self.place.clone()),
                        Question::Version => Answer::Version(self.version.clone()),
                        Question::Preparation => Answer::Preparation(self.preparation.clone()),
                    });
                    asked.push(question);
                }
                crate::Step::Finish(plan) => return Told { asked, plan },
            }
        }
    }
}

impl Told {
    fn status(&self) -> Option<&WorkspaceStatus> {
        self.plan.effects.iter().find_map(|effect| match effect {
            Effect::PatchStatus(status) => Some(status.as_ref()),
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
        Effect::Remove => "remove".to_owned(),
        Effect::Delete => "delete".to_owned(),
        Effect::Emit(event) => {
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

fn check<const N: usize>(table: [(&str, Given, &[&str]); N]) {
    for (sentence, given, expected) in table {
        assert_eq!(given.told().lines(), expected, "{sentence}");
    }
}

fn starting() -> Given {
    given().place(Place::Starting("pulling".into()))
}

fn failed() -> Given {
    given().place(Place::Failed("no memory".into()))
}

fn impossible() -> Given {
    given().place(Place::Impossible("spec.initContainers needs a pod".into()))
}

fn rolling() -> Given {
    given().place(Place::Rolling("changing".into()))
}

const READY: &str = "status Ready=True/Succeeded  at demo-workspace.shop:50051";
const INITIALIZED: &str = "event Initialized: Initialized workspace pod \"demo-workspace-0\"";

#[test]
fn a_workspace_needs_a_place() {
    check([
        (
            "that is being made",
            starting(),
            &[
                "place",
                "status Ready=False/WaitingForReplicas pulling",
                "again in 1s",
            ],
        ),
        (
            "that is being replaced",
            rolling(),
            &[
                "place",
                "status Ready=False/RollingUpdate changing",
                "again in 30s",
            ],
        ),
        (
            "that was removed to be made anew",
            given().place(Place::Migrated),
            &[
                "place",
                "status Ready=False/RollingUpdate Waiting for the statefulset to be made anew",
                "event! Migrated: Replaced the workspace statefulset",
                "again in 1s",
            ],
        ),
        (
            "that could not be made this time",
            failed(),
            &[
                "place",
                "status Ready=False/WaitingForReplicas no memory",
                "again in 60s",
            ],
        ),
        (
            "that can't be made from this spec",
            impossible(),
            &[
                "place",
                "status Ready=False/InitializationFailed spec.initContainers needs a pod \
                 Stalled=True/InitializationFailed spec.initContainers needs a pod",
                "settled",
            ],
        ),
        (
            "or nobody who needs one",
            given().place(Place::Asleep),
            &[
                "place",
                "status Ready=True/Idle without a pod until the next run needs one",
                "settled",
            ],
        ),
    ]);
    for place in [starting(), rolling(), failed(), impossible()] {
        assert_eq!(place.told().asked, [Question::Place], "no agent is asked");
    }
}

#[test]
fn an_agent_has_to_answer() {
    check([
        (
            "one that can't be reached",
            given().unreachable("no route"),
            &[
                "version",
                "status Ready=False/ConnectionFailed no route at demo-workspace.shop:50051",
                "event! ConnectionFailure: no route",
                "again in 1s",
            ],
        ),
        (
            "one that does not know us",
            given().refused("Unauthenticated", "unauthenticated"),
            &[
                "version",
                "status Ready=False/Unauthenticated unauthenticated at demo-workspace.shop:50051",
                "event! ConnectionFailure: unauthenticated",
                "again in 30s",
            ],
        ),
        (
            "one whose word is no reason",
            given().refused("not a reason!", "odd"),
            &[
                "version",
                "status Ready=False/ConnectionFailed odd at demo-workspace.shop:50051",
                "event! ConnectionFailure: odd",
                "again in 30s",
            ],
        ),
    ]);
    let binding = given().refused("Unauthenticated", "TokenReview API is unavailable");
    let told = binding.told().lines().join(" ");
    assert!(told.contains("kubectl create clusterrolebinding"), "{told}");
}

#[test]
fn a_cli_has_to_understand_the_config() {
    let number =
        json!({ "stacks": [{ "name": "dev", "config": [{ "key": "size", "value": 3 }] }] });
    let problem =
        "Pulumi CLI version 3.197.0 does not support JSON configuration, require >= v3.202.0";
    let old = given().spec(number.clone()).version("3.197.0");
    let stalled = format!(
        "status Ready=False/IncompatibleConfiguration {problem} \
         Stalled=True/IncompatibleConfiguration {problem} at demo-workspace.shop:50051"
    );
    let event = format!("event! StackInitializationFailure: {problem}");
    assert_eq!(
        old.told().lines(),
        ["compatible", &stalled, &event, "settled"]
    );
    assert!(
        !old.told().asked.contains(&Question::Preparation),
        "nothing is installed for it"
    );
    let new = given().spec(number).version("3.202.0");
    assert_eq!(new.told().plan.rule, "ready");
}

#[test]
fn a_new_agent_prepares_itself() {
    check([
        (
            "it installs",
            given().at_work(Stage::Installing),
            &[
                "preparation",
                "status Ready=False/Installing Installing packages and plugins required by the program \
                 at demo-workspace.shop:50051",
                "again in 60s",
            ],
        ),
        (
            "it selects stacks",
            given().at_work(Stage::Initializing),
            &[
                "preparation",
                "status Ready=False/Initializing Initializing and selecting a Pulumi stack \
                 at demo-workspace.shop:50051",
                "again in 60s",
            ],
        ),
        (
            "it could not install, and somebody has to act",
            given().failed_at(Stage::Installing, "no such package", false),
            &[
                "preparation",
                "status Ready=False/InstallationFailed no such package \
                 Stalled=True/InstallationFailed no such package at demo-workspace.shop:50051",
                "event! InstallationFailure: no such package",
                "again in 90s",
            ],
        ),
        (
            "it could not install, and that may pass",
            given().failed_at(Stage::Installing, "503", true),
            &[
                "preparation",
                "status Ready=False/InstallationFailed 503 at demo-workspace.shop:50051",
                "event! InstallationFailure: 503",
                "again in 90s",
            ],
        ),
        (
            "it could not select a stack",
            given().failed_at(
                Stage::Initializing,
                "Failed to initialize stack \"dev\": no",
                false,
            ),
            &[
                "preparation",
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
fn a_failure_stays_until_it_is_over() {
    for failed in [
        given().failed_at(Stage::Installing, "no registry", true),
        given().failed_at(Stage::Initializing, "no backend", false),
    ] {
        let again = given().at_work(Stage::Installing).after(&failed);
        assert_eq!(
            again.told().lines(),
            ["preparation", "again in 60s"],
            "a try does not make it come and go"
        );
        let same = Given {
            preparation: failed.preparation.clone(),
            ..given().after(&failed)
        };
        assert_eq!(
            same.told().lines(),
            ["preparation", "again in 90s"],
            "the same failure is told once"
        );
        let mended = given().after(&failed);
        assert_eq!(
            mended.told().lines(),
            ["ready", READY, INITIALIZED, "again in 600s"]
        );
        let edited = given()
            .at_work(Stage::Installing)
            .after(&failed)
            .generation(3);
        assert!(
            edited.told().lines()[1].contains("Ready=False/Installing"),
            "an edit may have mended it"
        );
    }
}

#[test]
fn a_workspace_becomes_ready_once() {
    let told = given().told();
    assert_eq!(told.lines(), ["ready", READY, INITIALIZED, "again in 600s"]);
    let status = told.status().unwrap();
    assert_eq!(status.observed_generation, Some(2));
    assert_eq!(status.pulumi_version.as_deref(), Some("3.259.0"));
    assert_eq!(
        given().after(&given()).told().lines(),
        ["ready", "again in 600s"],
        "nothing is written twice"
    );
}

#[test]
fn a_pod_of_another_operator_is_ready_and_says_so() {
    let outdated = "status Ready=True/Outdated made by another version of the operator: the next run gets a new pod \
                    at demo-workspace.shop:50051";
    check([
        (
            "from the beginning",
            given().outdated(),
            &["ready", outdated, INITIALIZED, "again in 600s"],
        ),
        (
            "after an upgrade of the operator",
            given().outdated().after(&given()),
            &["ready", outdated, "again in 600s"],
        ),
        (
            "until it was replaced",
            given().after(&given().outdated()),
            &["ready", READY, "again in 600s"],
        ),
    ]);
}

#[test]
fn a_workspace_that_was_ready_may_lose_it() {
    let was = |now: Given| now.after(&given());
    check([
        (
            "its pod is gone, and its address",
            was(starting()),
            &[
                "place",
                "status Ready=False/WaitingForReplicas pulling",
                "again in 1s",
            ],
        ),
        (
            "its agent does not answer",
            was(given().unreachable("no route")),
            &[
                "version",
                "status Ready=False/ConnectionFailed no route at demo-workspace.shop:50051",
                "event! ConnectionFailure: no route",
                "again in 1s",
            ],
        ),
        (
            "its spec was edited, and it is ready for that",
            was(given()).generation(3),
            &["ready", READY, "again in 600s"],
        ),
        (
            "it is put to sleep",
            was(given().place(Place::Asleep)),
            &[
                "place",
                "status Ready=True/Idle without a pod until the next run needs one",
                "settled",
            ],
        ),
        (
            "it is woken up, in a pod that is prepared anew",
            given().after(&given().place(Place::Asleep)),
            &["ready", READY, INITIALIZED, "again in 600s"],
        ),
    ]);
}

#[test]
fn an_old_stall_does_not_outlive_its_spec() {
    let mended = starting().after(&impossible()).generation(3).told();
    assert_eq!(
        mended.lines()[1],
        "status Ready=False/WaitingForReplicas pulling"
    );
    let ready = given().after(&impossible()).generation(3).told();
    assert_eq!(ready.lines()[1], READY);
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let asleep = || given().place(Place::Asleep);
    let silent = || given().unreachable("no route");
    for (given, before, expected) in [
        (starting(), starting(), ["place", "again in 1s"]),
        (rolling(), rolling(), ["place", "again in 30s"]),
        (failed(), failed(), ["place", "again in 60s"]),
        (impossible(), impossible(), ["place", "settled"]),
        (asleep(), asleep(), ["place", "settled"]),
        (silent(), silent(), ["version", "again in 1s"]),
        (
            given().outdated(),
            given().outdated(),
            ["ready", "again in 600s"],
        ),
        (
            given().deleting(),
            given().deleting(),
            ["deleting", "settled"],
        ),
    ] {
        assert_eq!(given.after(&before).told().lines(), expected);
    }
}

#[test]
fn a_time_moves_only_with_its_status() {
    let told = failed().after(&starting()).told();
    let ready = &told.status().unwrap().conditions[0];
    assert_eq!(
        ready.last_transition_time.0,
        now() - SignedDuration::from_secs(1_000)
    );
    let told = given().after(&starting()).told();
    assert_eq!(
        told.status().unwrap().conditions[0].last_transition_time.0,
        now()
    );
    let broken = |message| given().failed_at(Stage::Installing, message, false);
    let told = broken("other").after(&broken("no registry")).told();
    let stalled = &told.status().unwrap().conditions[1];
    assert_eq!(stalled.message, "other");
    assert_eq!(
        stalled.last_transition_time.0,
        now() - SignedDuration::from_secs(1_000)
    );
}

#[test]
fn a_workspace_that_is_deleted_ends_what_it_runs() {
    let told = given().deleting().told();
    assert_eq!(
        told.lines(),
        [
            "deleting",
            "remove",
            "status Ready=False/Deleting Workspace is being deleted",
            "settled"
        ]
    );
    assert_eq!(told.asked, []);
}

#[test]
fn what_does_not_decode_says_so_once() {
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
    let again = decide_undecodable(&object(json!(status)), now);
    assert_eq!((again.rule, again.effects.len()), ("undecodable", 0));
}
