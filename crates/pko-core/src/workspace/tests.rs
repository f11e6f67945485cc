//! Each rule of the Workspace's table: what is given, and what is done, as text.

use jiff::{SignedDuration, Timestamp};
use pko_api::{Decoded, auto::v1alpha1::WorkspaceStatus};
use serde_json::{Value, json};

use super::*;
use crate::Plan;

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

/// A new Workspace whose place runs and whose agent answers.
struct Given {
    workspace: Value,
    place: Place,
    agent: Result<Agent, AgentError>,
}

struct Told {
    asked: Vec<Question>,
    plan: Plan<Effect>,
}

fn given() -> Given {
    Given {
        workspace: json!({ "metadata": { "name": "demo", "namespace": "shop", "generation": 2 } }),
        place: Place::Running {
            address: "unix:/run/demo".into(),
        },
        agent: Ok(Agent {
            pulumi_version: "3.259.0".into(),
        }),
    }
}

impl Given {
    fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    fn unreachable(mut self, message: &str) -> Self {
        self.agent = Err(AgentError::Unreachable(message.into()));
        self
    }

    fn broken(mut self, message: &str) -> Self {
        self.agent = Err(AgentError::Installation(message.into()));
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
                        Question::Place => Answer::Place(self.place.clone()),
                        Question::Agent(..) => Answer::Agent(self.agent.clone()),
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

    /// The status that is published before the agent is asked.
    fn published(&self) -> Option<String> {
        self.asked.iter().find_map(|question| match question {
            Question::Agent(_, Some(status)) => Some(state(status)),
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

const READY: &str = "status Ready=True/Succeeded  at unix:/run/demo";
const INITIALIZED: &str = "event Initialized: Initialized workspace \"demo\"";
const INSTALLING: &str =
    "Ready=False/Installing Installing packages and plugins required by the program";

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
    ]);
    assert_eq!(
        starting().told().asked,
        [Question::Place],
        "no agent is asked"
    );
}

#[test]
fn an_agent_has_to_answer() {
    let first = given().unreachable("no route").told();
    assert_eq!(first.published().as_deref(), Some(INSTALLING));
    assert_eq!(
        first.lines(),
        [
            "agent",
            "status Ready=False/ConnectionFailed no route",
            "again in 1s"
        ]
    );
    let packages = given().broken("no registry").told();
    assert_eq!(
        packages.lines(),
        [
            "agent",
            "status Ready=False/InstallationFailed no registry Stalled=True/InstallationFailed no registry",
            "event! InstallationFailure: no registry",
            "again in 60s",
        ]
    );
}

#[test]
fn a_failure_stays_until_it_is_over() {
    let silent: [(&str, Given, &str); 2] = [
        (
            "no connection",
            given().unreachable("no route"),
            "again in 1s",
        ),
        ("no packages", given().broken("no registry"), "again in 60s"),
    ];
    for (sentence, before, requeue) in silent {
        let again = given().after(&before);
        let again = Given {
            agent: before.agent.clone(),
            ..again
        };
        let told = again.told();
        let stored = state(&serde_json::from_value(again.workspace["status"].clone()).unwrap());
        assert_eq!(
            told.published(),
            Some(stored),
            "{sentence}: what is stored stands"
        );
        assert_eq!(
            told.lines(),
            ["agent", requeue],
            "{sentence}: nothing is written"
        );

        let fixed = given().after(&before).told();
        assert_eq!(
            fixed.lines(),
            ["ready", READY, INITIALIZED, "again in 30s"],
            "{sentence}"
        );

        let edited = given().after(&before).generation(3).told();
        assert_eq!(
            edited.published().as_deref(),
            Some(INSTALLING),
            "{sentence}: an edit may have mended it"
        );
    }
    let other = given()
        .after(&given().unreachable("no route"))
        .unreachable("refused")
        .told();
    assert_eq!(
        other.lines()[1],
        "status Ready=False/ConnectionFailed refused"
    );
}

#[test]
fn a_workspace_becomes_ready_once() {
    let told = given().told();
    assert_eq!(
        told.published().as_deref(),
        Some(INSTALLING),
        "a new one installs first"
    );
    assert_eq!(told.lines(), ["ready", READY, INITIALIZED, "again in 30s"]);
    let status = told.status().unwrap();
    assert_eq!(status.observed_generation, Some(2));
    assert_eq!(status.pulumi_version.as_deref(), Some("3.259.0"));

    let ready = given().after(&given());
    assert_eq!(ready.told().published(), None, "nothing is installed twice");
    assert_eq!(
        ready.told().lines(),
        ["ready", "again in 30s"],
        "nothing is written twice"
    );
}

#[test]
fn a_workspace_that_was_ready_may_lose_it() {
    let was = |now: Given| now.after(&given());
    check([
        (
            "its place is gone, and its address",
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
                "agent",
                "status Ready=False/ConnectionFailed no route at unix:/run/demo",
                "again in 1s",
            ],
        ),
        (
            "its spec was edited, and it is ready for that",
            was(given()).generation(3),
            &["ready", READY, INITIALIZED, "again in 30s"],
        ),
        (
            "its place moved",
            was(given().place(Place::Running {
                address: "unix:/run/other".into(),
            })),
            &[
                "ready",
                "status Ready=True/Succeeded  at unix:/run/other",
                "again in 30s",
            ],
        ),
    ]);
    let edited = was(given()).generation(3).told();
    assert!(
        edited.published().unwrap().starts_with(INSTALLING),
        "an edit may need other packages"
    );
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
    for (given, before, expected) in [
        (starting(), starting(), ["place", "again in 1s"]),
        (failed(), failed(), ["place", "again in 60s"]),
        (impossible(), impossible(), ["place", "settled"]),
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
    let told = given()
        .broken("other")
        .after(&given().broken("no registry"))
        .told();
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
