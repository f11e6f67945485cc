//! What the agent reports of a run without another CLI call equals what upstream's agent reads from
//! the CLI: outputs, what changed, the result, the message and the times.

use std::{collections::BTreeMap, process::Command};

use jiff::Timestamp;
use pko_proto::{
    agent::{DestroyRequest, OutputValue, RefreshRequest, UpRequest},
    convert::literal_config,
    run::{RunResult, StackConfig, StartRunRequest, start_run_request::Operation},
};
use serde_json::{Map, Value, json};

use crate::harness::{CliKind, TestWorkspace, configured, on_each_cli, wait_for_result};

on_each_cli!(engine and real: result_fields_equal_cli_queries update_message_defaults_to_commit_title);

const PROGRAM: &str = r#"
name: demo
runtime: yaml
config:
  token: {type: string}
  size: {type: integer}
variables:
  hidden:
    fn::secret: {inner: [1, deep]}
resources:
  stash:
    type: pulumi:index:Stash
    properties:
      input: {size: "${size}", text: "<a> & \"b\" ü"}
outputs:
  text: "<a> & \"b\" ü"
  whole: 42
  fraction: 0.1
  yes: true
  list: [1, "two", null, {three: 3}]
  stash: ${stash.output}
  token: ${token}
  hidden: ${hidden}
  partly: {open: 1, closed: "${token}"}
  looks_secret: "[secret]"
"#;

fn ask(place: &TestWorkspace, arguments: &[&str]) -> Value {
    let stack = ["--json", "--stack", "dev"];
    place.ask(&[&["stack"], arguments, &stack].concat())
}

/// The outputs as upstream's agent makes them of two calls.
fn upstreams_outputs(place: &TestWorkspace) -> BTreeMap<String, (Value, bool)> {
    let shown = ask(place, &["output", "--show-secrets"]);
    let blinded = ask(place, &["output"]);
    let output = |(name, value): (&String, &Value)| {
        let secret = blinded[name].to_string().contains("[secret]");
        (name.clone(), (value.clone(), secret))
    };
    shown.as_object().unwrap().iter().map(output).collect()
}

fn ours(outputs: &BTreeMap<String, OutputValue>) -> BTreeMap<String, (Value, bool)> {
    let output = |(name, output): (&String, &OutputValue)| {
        let value = serde_json::from_slice(&output.value).unwrap();
        (name.clone(), (value, output.secret))
    };
    outputs.iter().map(output).collect()
}

/// The last update as upstream's agent reads it.
fn last_update(place: &TestWorkspace) -> Map<String, Value> {
    let page = [
        "history",
        "--show-secrets",
        "--page-size",
        "1",
        "--page",
        "1",
    ];
    let history = ask(place, &page);
    history[0].as_object().unwrap().clone()
}

fn assert_same_summary(result: &RunResult, history: &Map<String, Value>, message: &str) {
    let summary = result.summary.as_ref().unwrap();
    assert_eq!(history["result"], summary.result.as_str());
    assert_eq!(history["message"], summary.message.as_str());
    assert_eq!(summary.message, message);
    // Kinds of which there are none are left out, or not.
    let changes = |changes: Value| {
        let changes: BTreeMap<String, i32> = serde_json::from_value(changes).unwrap();
        changes
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect::<BTreeMap<_, _>>()
    };
    let noted = history.get("resourceChanges").cloned().unwrap_or(json!({}));
    assert_eq!(changes(json!(result.resource_changes)), changes(noted));
    // The CLI begins after us and ends before us; its times are cut to seconds.
    let noted = |name: &str| {
        history[name]
            .as_str()
            .unwrap()
            .parse::<Timestamp>()
            .unwrap()
    };
    let (start, end) = (summary.start_time.unwrap(), summary.end_time.unwrap());
    assert!(noted("startTime").as_second() >= start.seconds);
    assert!(noted("endTime").as_second() <= end.seconds);
    assert!(noted("startTime").as_second() <= end.seconds);
}

fn request(run_id: &str, operation: Operation) -> StartRunRequest {
    let config = StackConfig {
        items: vec![
            literal_config("size", &json!(4), false, false),
            literal_config("token", &json!("canary-token"), false, true),
        ],
        environments: Vec::new(),
    };
    StartRunRequest {
        operation: Some(operation),
        ..configured(run_id, config)
    }
}

async fn result_fields_equal_cli_queries(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let message = || Some("why \"this\"".to_owned());
    let operations = [
        Operation::Up(UpRequest {
            message: message(),
            ..Default::default()
        }),
        Operation::Up(UpRequest {
            message: message(),
            ..Default::default()
        }),
        Operation::Refresh(RefreshRequest {
            message: message(),
            ..Default::default()
        }),
        Operation::Destroy(DestroyRequest {
            message: message(),
            ..Default::default()
        }),
    ];
    for (number, operation) in operations.into_iter().enumerate() {
        let is_up = matches!(operation, Operation::Up(_));
        let run_id = number.to_string();
        client.start_run(request(&run_id, operation)).await.unwrap();
        let result = wait_for_result(&mut client, &run_id).await;
        assert!(result.error.is_none(), "{:?}", result.error);
        assert_same_summary(&result, &last_update(&place), "why \"this\"");
        if is_up {
            let mut upstreams = upstreams_outputs(&place);
            // A text that looks like a hidden one is none: there upstream is wrong.
            upstreams.get_mut("looks_secret").unwrap().1 = false;
            assert_eq!(ours(&result.outputs), upstreams);
        }
    }
}

async fn update_message_defaults_to_commit_title(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        let output = Command::new("git")
            .args(identity)
            .args(arguments)
            .current_dir(place.workspace())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&[
        "commit",
        "--quiet",
        "--message",
        "Make it larger\n\nAnd more.",
    ]);
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let operation = Operation::Up(UpRequest::default());
    client.start_run(request("one", operation)).await.unwrap();
    let result = wait_for_result(&mut client, "one").await;
    assert!(result.error.is_none(), "{:?}", result.error);
    let history = last_update(&place);
    let expected = history["message"].as_str().unwrap();
    assert_same_summary(&result, &history, expected);
}
