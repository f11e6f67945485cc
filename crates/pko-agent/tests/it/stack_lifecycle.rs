//! A stack from its first update to its end, with each CLI.

use pko_proto::{
    agent::DestroyRequest,
    convert::literal_config,
    run::{StackConfig, StartRunRequest, start_run_request},
};
use serde_json::json;

use crate::harness::{
    CliKind, TestWorkspace, configured, on_each_cli, remaining_events, update, wait_for_result,
    watch,
};

on_each_cli!(stack_is_updated_twice_and_destroyed invalid_program_fails_with_its_error);

const PROGRAM: &str = "\
name: demo
runtime: yaml
config:
  size:
    type: integer
  token:
    type: string
resources:
  first:
    type: pulumi:index:Stash
    properties:
      input: ${size}
outputs:
  first: ${first.input}
  token: ${token}
";

fn config(size: i32, token: &str) -> StackConfig {
    StackConfig {
        items: vec![
            literal_config("size", &json!(size), false, false),
            literal_config("token", &json!(token), false, true),
        ],
        environments: Vec::new(),
    }
}

async fn stack_is_updated_twice_and_destroyed(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    for (run_id, size, change) in [("one", 4, "create"), ("two", 5, "update")] {
        let request = configured(run_id, config(size, "canary-token"));
        client.start_run(request).await.unwrap();
        let (numbers, result) = remaining_events(watch(&mut client, run_id, 0).await).await;
        let result = result.unwrap();
        assert!(result.error.is_none(), "{:?} {}", result.error, agent.log());
        assert!(numbers.len() > 3, "{numbers:?}");
        assert!(
            result.resource_changes.contains_key(change),
            "{:?}",
            result.resource_changes
        );
        assert_eq!(result.outputs["first"].value, size.to_string().as_bytes());
        assert_eq!(result.outputs["token"].value, b"\"canary-token\"");
        assert!(result.outputs["token"].secret && !result.outputs["first"].secret);
    }
    assert!(!agent.log().contains("canary-token"), "{}", agent.log());
    let destroy = start_run_request::Operation::Destroy(DestroyRequest {
        remove: Some(true),
        ..Default::default()
    });
    let request = StartRunRequest {
        operation: Some(destroy),
        ..update("three")
    };
    client.start_run(request).await.unwrap();
    let result = wait_for_result(&mut client, "three").await;
    assert!(result.error.is_none(), "{:?}", result.error);
    assert!(!place.workspace().join("Pulumi.dev.yaml").exists());
}

async fn invalid_program_fails_with_its_error(cli: CliKind) {
    let program = "name: demo\nruntime: yaml\noutputs:\n  bad: ${nothing.there}\n";
    let place = TestWorkspace::with(cli, program);
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    client.start_run(update("one")).await.unwrap();
    let result = wait_for_result(&mut client, "one").await;
    let error = result.error.unwrap();
    assert!(
        error
            .message
            .starts_with("up failed: failed to run update: exit status"),
        "{error:?}"
    );
    assert!(error.message.contains("nothing"), "{error:?}");
}
