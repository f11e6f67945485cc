//! The recorded result of a run.

use std::collections::BTreeMap;

use pko_api::{Decoded, auto::v1alpha1::ProjectInfo, names::failures::FailureClass};

use super::*;

#[test]
fn successful_run_stores_outputs_before_its_result() {
    let outputs = BTreeMap::from([(
        "url".to_owned(),
        StackOutput {
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
        changes: BTreeMap::from([("create".to_owned(), 2)]),
        ..succeeded()
    };
    let outcome = fixture()
        .progressing()
        .lifetime("24h")
        .ended(outcome)
        .decide();
    assert_eq!(
        outcome.lines(),
        [
            "run",
            "status Progressing=False/Complete Failed=False/UpdateSucceeded Complete=True/Updated all fine",
            "acknowledge",
            "event UpdateSucceeded: Updated stack \"dev\"",
            "again in 86400s",
        ]
    );
    assert_eq!(
        outcome.request_names(),
        ["workspace", "admission", "agent", "run", "outputs"],
        "outputs first"
    );
    let mut status = serde_json::to_value(outcome.status().unwrap()).unwrap();
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
            "workspaceInstance": HERE,
            "resourceChanges": { "create": 2 },
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
fn failed_run_has_the_reason_of_the_agent() {
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
            fixture().ended(outcome).decide().lines(),
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

fn with_outputs() -> RunOutcome {
    let outputs = [("url", "1", false), ("password", "\"hunter2\"", true)];
    let output = |(name, json, secret): (&str, &str, bool)| {
        let json = json.into();
        (name.to_owned(), StackOutput { json, secret })
    };
    RunOutcome {
        message: "all fine".into(),
        outputs: outputs.map(output).into(),
        ..succeeded()
    }
}

#[test]
fn successful_run_is_recorded_without_storable_outputs() {
    let mut refused = fixture().progressing().ended(with_outputs());
    refused.outputs = Err("exceeded quota: secrets".into());
    let outcome = refused.decide();
    assert_eq!(
        outcome.lines(),
        [
            "run",
            "status Progressing=False/Complete Failed=False/UpdateSucceeded Complete=True/Updated all fine\n\
             the outputs are not stored: exceeded quota: secrets",
            "acknowledge",
            "event UpdateSucceeded: Updated stack \"dev\"",
            "settled",
        ]
    );
    assert_eq!(outcome.status().unwrap().outputs, None);

    let mut many = with_outputs();
    let json = vec![b'1'; 2 * 1024 * 1024];
    many.outputs.insert(
        "many".into(),
        StackOutput {
            json,
            secret: false,
        },
    );
    let outcome = fixture().progressing().ended(many).decide();
    assert_eq!(
        outcome.request_names(),
        ["workspace", "admission", "agent", "run"]
    );
    let message = outcome.status().unwrap().message.clone().unwrap();
    assert!(
        message.starts_with("all fine\nthe outputs have 2097177 bytes"),
        "{message}"
    );
}

#[test]
fn preview_shows_its_plan_and_stores_no_secret() {
    let run = RunOutcome {
        permalink: Some("https://x/preview/1".into()),
        changes: BTreeMap::from([("create".to_owned(), 2)]),
        printed: "Previewing update (dev):".into(),
        ..with_outputs()
    };
    let preview = || {
        fixture()
            .progressing()
            .with(json!({ "spec": { "type": "preview" } }))
    };
    let outcome = preview().ended(run.clone()).decide();
    assert_eq!(
        outcome.request_names(),
        ["workspace", "admission", "agent", "run"]
    );
    let status = serde_json::to_value(outcome.status().unwrap()).unwrap();
    assert_eq!(
        status["plannedOutputs"],
        json!({ "url": 1, "password": "[secret]" })
    );
    assert_eq!(status["resourceChanges"], json!({ "create": 2 }));
    assert_eq!(status["output"], "Previewing update (dev):");
    assert_eq!(status["permalink"], "https://x/preview/1");
    assert_eq!(status["outputs"], Value::Null);
    assert!(!status.to_string().contains("hunter2"));

    let long = RunOutcome {
        printed: "x".repeat(100_000),
        ..run.clone()
    };
    let outcome = preview().ended(long).decide();
    let printed = outcome.status().unwrap().output.clone().unwrap();
    assert!(printed.len() <= 8 * 1024 && printed.contains('…'));

    let failed = RunOutcome {
        succeeded: false,
        ..run
    };
    let status = preview().ended(failed).decide().status().unwrap().clone();
    assert_eq!(status.planned_outputs, None);
    assert!(status.output.is_some() && status.permalink.is_some());
}

#[test]
fn failed_run_keeps_its_details() {
    let outcome = RunOutcome {
        class: Some(FailureClass::Conflict),
        message: "locked".into(),
        start: Some(now()),
        end: Some(now()),
        permalink: Some("https://x/1".into()),
        project: Some(ProjectInfo {
            name: "hello".into(),
            runtime: "yaml".into(),
        }),
        changes: BTreeMap::from([("create".to_owned(), 1)]),
        ..RunOutcome::default()
    };
    let outcome = fixture().progressing().ended(outcome).decide();
    let mut status = serde_json::to_value(outcome.status().unwrap()).unwrap();
    status.as_object_mut().unwrap().remove("conditions");
    assert_eq!(
        status,
        json!({
            "observedGeneration": 2,
            "startTime": "2023-11-14T22:13:20Z",
            "endTime": "2023-11-14T22:13:20Z",
            "permalink": "https://x/1",
            "message": "locked",
            "failureClass": "conflict",
            "projectInfo": { "name": "hello", "runtime": "yaml" },
            "workspaceInstance": HERE,
            "resourceChanges": { "create": 1 },
        })
    );
}

#[test]
fn refused_run_has_failed() {
    let refused = fixture().run(Err(RunError::Refused("no such stack".into())));
    assert_eq!(
        refused.decide().lines(),
        [
            "run",
            "status Progressing=False/Complete Failed=True/UpdateFailed Complete=True/Updated no such stack",
            "acknowledge",
            "event! UpdateFailed: Failed to update stack \"dev\"",
            "settled",
        ]
    );
}

/// The worst report of a lying agent.
#[test]
fn impossible_result_is_recorded_without_what_is_impossible() {
    let year_9999 = Timestamp::from_second(253_402_207_200).unwrap();
    let outcome = RunOutcome {
        start: Some(Timestamp::UNIX_EPOCH),
        end: Some(year_9999),
        permalink: Some("javascript:alert(1)".into()),
        changes: BTreeMap::from([("create".to_owned(), -7), ("same".to_owned(), 1)]),
        outputs: BTreeMap::from([(
            "x".repeat(2_000_000),
            StackOutput {
                json: b"1".to_vec(),
                secret: false,
            },
        )]),
        ..succeeded()
    };
    let update = fixture()
        .progressing()
        .with(json!({ "metadata": { "creationTimestamp": ago(2_000) } }));
    let outcome = update.ended(outcome).decide();
    let status = outcome.status().unwrap();
    assert!(serde_json::to_vec(status).unwrap().len() < 4096);
    assert_eq!(
        status.start_time.as_ref().unwrap().0.to_string(),
        ago(1_000)
    );
    assert_eq!(status.end_time.as_ref().unwrap().0, now());
    assert_eq!((&status.permalink, &status.outputs), (&None, &None));
    assert_eq!(status.resource_changes, [("same".to_owned(), 1)].into());
    let message = status.message.as_deref().unwrap();
    assert!(message.contains("are not stored"), "{message}");
    let complete = &status.conditions[2].message;
    assert!(complete.contains("clock") && complete.contains("permalink"));
}

#[test]
fn oversized_result_fails_with_its_reason() {
    let oversized = fixture().run(Err(RunError::Oversized("export less".into())));
    let outcome = oversized.decide();
    assert_eq!(
        outcome.lines()[1..3],
        [
            "status Progressing=False/Complete Failed=True/UpdateFailed Complete=True/Updated export less",
            "acknowledge"
        ]
    );
    let class = outcome.status().unwrap().failure_class.as_deref();
    assert_eq!(class, Some("program"));
}

#[test]
fn operation_decides_the_event() {
    for (operation, done, failed) in [
        ("up", "Updated", "update"),
        ("preview", "Previewed", "preview"),
        ("refresh", "Refreshed", "refresh"),
        ("destroy", "Destroyed", "destroy"),
    ] {
        let event = |outcome| {
            let fixture = fixture().with(json!({ "spec": { "type": operation } }));
            fixture.ended(outcome).decide().lines()[3].clone()
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
fn long_message_is_shortened() {
    let outcome = RunOutcome {
        message: "x".repeat(2_000_000),
        ..RunOutcome::default()
    };
    let outcome = fixture().ended(outcome).decide();
    assert!(outcome.status().unwrap().message.as_ref().unwrap().len() < 40_000);
}

#[test]
fn undecodable_update_is_reported_once() {
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
    let plan = ObservedUpdate::decide_undecodable(&object(json!({})), now);
    let [UpdateEffect::PatchStatus(status)] = plan.effects.as_slice() else {
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
    let again = ObservedUpdate::decide_undecodable(&object(json!(status)), now);
    assert_eq!((again.rule, again.effects.len()), ("undecodable", 0));
}
