//! Upstream's four streaming calls, with each CLI.

use pko_proto::{
    agent::{
        DestroyRequest, PreviewRequest, RefreshRequest, UpRequest,
        automation_service_client::AutomationServiceClient, destroy_stream, preview_stream,
        refresh_stream,
    },
    run::{StartRunRequest, start_run_request},
};
use pko_testkit::Reply;
use serde_json::json;
use tonic::{Code, Status, transport::Channel};

use crate::harness::{
    Agent, CliKind, TestWorkspace, events_and_result, on_each_cli, remaining_events, select,
    update, watch, within_deadline,
};

on_each_cli!(
    operation_without_stack_fails
    update_streams_events_result_and_project
    preview_has_no_summary
    preview_run_has_plan_without_secrets
    refresh_may_run_the_program
    destroy_may_run_the_program
    outputs_equal_cli_output
    update_expecting_no_changes_fails_on_change
    wrong_passphrase_fails
    missing_passphrase_fails
);

const PROGRAM: &str = "\
name: simple
runtime: yaml
resources:
  first:
    type: pulumi:index:Stash
    properties:
      input: v4
outputs:
  size: 4
  text: hello
  object: {a: 1, list: [1, two]}
  hidden: {fn::secret: s3cr3t-value}
";

/// An agent with a selected stack.
async fn begin(
    cli: CliKind,
    flags: &[&str],
) -> (TestWorkspace, Agent, AutomationServiceClient<Channel>) {
    let place = TestWorkspace::with_stack(cli, PROGRAM);
    let agent = place.serve(flags).await;
    let mut client = agent.automation().await;
    select(&mut client, "dev").await;
    (place, agent, client)
}

async fn up(client: &mut AutomationServiceClient<Channel>) {
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    events_and_result(stream).await.1.unwrap();
}

async fn operation_without_stack_fails(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    let refused: [Status; 4] = [
        client.up(UpRequest::default()).await.unwrap_err(),
        client.preview(PreviewRequest::default()).await.unwrap_err(),
        client.refresh(RefreshRequest::default()).await.unwrap_err(),
        client.destroy(DestroyRequest::default()).await.unwrap_err(),
    ];
    for status in refused {
        assert_eq!(
            (status.code(), status.message()),
            (Code::FailedPrecondition, "no stack is selected")
        );
    }
}

async fn update_streams_events_result_and_project(cli: CliKind) {
    let (_place, _agent, mut client) = begin(cli, &[]).await;
    let options = UpRequest {
        message: Some("two words".to_owned()),
        ..Default::default()
    };
    let stream = client.up(options).await.unwrap().into_inner();
    let (events, result) = events_and_result(stream).await;
    let result = result.unwrap();
    assert!(!events.is_empty());
    let summary = result.summary.unwrap();
    // Upstream puts the message in quotes.
    assert_eq!(
        (&*summary.result, &*summary.message),
        ("succeeded", "two words")
    );
    assert!(summary.start_time.is_some() && summary.end_time.is_some());
    let project = result.project_info.unwrap();
    assert_eq!((&*project.name, &*project.runtime), ("simple", "yaml"));
    assert!(
        result.stdout.contains("Updating (dev)"),
        "{}",
        result.stdout
    );
    assert!(result.permalink.is_none());
}

async fn preview_run_has_plan_without_secrets(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let mut client = agent.runs().await;
    let preview = start_run_request::Operation::Preview(PreviewRequest::default());
    let request = StartRunRequest {
        operation: Some(preview),
        ..update("plan")
    };
    client.start_run(request).await.unwrap();
    let (_, result) = remaining_events(watch(&mut client, "plan", 0).await).await;
    let result = result.unwrap();
    assert_eq!(result.error, None);
    let planned = result.outputs.iter().map(|(name, output)| {
        let value: serde_json::Value = serde_json::from_slice(&output.value).unwrap();
        (name.clone(), json!([value, output.secret]))
    });
    let planned: serde_json::Value = planned.collect::<serde_json::Map<_, _>>().into();
    let expected = json!({
        "size": [4, false], "text": ["hello", false], "hidden": ["[secret]", true],
        "object": [{"a": 1, "list": [1, "two"]}, false],
    });
    assert_eq!(planned, expected);
    assert_eq!(result.resource_changes["create"], 2);
    assert!(
        result.stdout.contains("Previewing update"),
        "{}",
        result.stdout
    );
    assert!(!result.stdout.contains("s3cr3t-value"));
}

async fn preview_has_no_summary(cli: CliKind) {
    let (_place, _agent, mut client) = begin(cli, &[]).await;
    let preview = client.preview(PreviewRequest::default()).await.unwrap();
    let mut stream = preview.into_inner();
    let mut events = 0;
    let result = loop {
        match stream.message().await.unwrap().unwrap().response.unwrap() {
            preview_stream::Response::Event(_) => events += 1,
            preview_stream::Response::Result(result) => break result,
        }
    };
    assert!(events > 0 && result.summary.is_none() && result.project_info.is_some());
}

/// With and without `run_program`, which the embedded engine refuses.
fn run_program(cli: CliKind) -> Vec<Option<bool>> {
    match cli {
        CliKind::Engine => vec![None],
        CliKind::StandIn | CliKind::Real => vec![None, Some(true)],
    }
}

async fn refresh_may_run_the_program(cli: CliKind) {
    let (_place, _agent, mut client) = begin(cli, &[]).await;
    up(&mut client).await;
    for run_program in run_program(cli) {
        let options = RefreshRequest {
            run_program,
            ..Default::default()
        };
        let mut stream = client.refresh(options).await.unwrap().into_inner();
        let result = loop {
            match stream.message().await.unwrap().unwrap().response.unwrap() {
                refresh_stream::Response::Event(_) => {}
                refresh_stream::Response::Result(result) => break result,
            }
        };
        assert_eq!(result.summary.unwrap().result, "succeeded");
    }
}

async fn destroy_may_run_the_program(cli: CliKind) {
    let (_place, _agent, mut client) = begin(cli, &[]).await;
    for run_program in run_program(cli) {
        up(&mut client).await;
        let options = DestroyRequest {
            run_program,
            ..Default::default()
        };
        let mut stream = client.destroy(options).await.unwrap().into_inner();
        let result = loop {
            match stream.message().await.unwrap().unwrap().response.unwrap() {
                destroy_stream::Response::Event(_) => {}
                destroy_stream::Response::Result(result) => break result,
            }
        };
        assert_eq!(result.summary.unwrap().result, "succeeded");
    }
}

async fn outputs_equal_cli_output(cli: CliKind) {
    let (place, agent, mut client) = begin(cli, &[]).await;
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let outputs = events_and_result(stream).await.1.unwrap().outputs;
    let printed = place.ask(&[
        "stack",
        "output",
        "--json",
        "--show-secrets",
        "--stack",
        "dev",
    ]);
    for (name, value) in printed.as_object().unwrap() {
        let output: serde_json::Value = serde_json::from_slice(&outputs[name].value).unwrap();
        assert_eq!((&output, outputs[name].secret), (value, name == "hidden"));
    }
    assert_eq!(outputs.len(), printed.as_object().unwrap().len());
    assert!(!agent.log().contains("s3cr3t-value"));
}

async fn update_expecting_no_changes_fails_on_change(cli: CliKind) {
    let (_place, _agent, mut client) = begin(cli, &[]).await;
    let options = UpRequest {
        expect_no_changes: Some(true),
        ..Default::default()
    };
    let stream = client.up(options.clone()).await.unwrap().into_inner();
    let status = events_and_result(stream).await.1.unwrap_err();
    let text = status.message();
    assert!(
        text.starts_with("up failed: failed to run update: exit status 7"),
        "{text}"
    );
    assert!(text.contains("no changes were expected"), "{text}");
    let stream = client.up(options).await.unwrap().into_inner();
    events_and_result(stream).await.1.unwrap();
}

/// Not with the embedded engine, which keeps no log.
async fn high_log_level_warns(cli: CliKind) {
    let (_place, _agent, mut client) = begin(cli, &["--pulumi-log-level", "11"]).await;
    let warning = "log level 11 will print sensitive information";
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let result = events_and_result(stream).await.1.unwrap();
    assert!(result.stderr.contains(warning), "{}", result.stderr);
    // Upstream forgets the option here.
    let mut stream = client
        .destroy(DestroyRequest::default())
        .await
        .unwrap()
        .into_inner();
    let result = loop {
        match stream.message().await.unwrap().unwrap().response.unwrap() {
            destroy_stream::Response::Event(_) => {}
            destroy_stream::Response::Result(result) => break result,
        }
    };
    assert!(result.stderr.contains(warning), "{}", result.stderr);
}

#[tokio::test]
async fn high_log_level_warns_on_stand_in() {
    high_log_level_warns(CliKind::StandIn).await;
}

#[tokio::test]
async fn high_log_level_warns_on_real_cli() {
    high_log_level_warns(CliKind::Real).await;
}

/// The CLI elides the contents of assets in events, so they must come from what it prints.
#[tokio::test]
async fn asset_outputs_equal_cli_output() {
    let program = "name: simple\nruntime: yaml\noutputs:\n  text: {fn::stringAsset: hello}\n  pair: {fn::assetArchive: {one: {fn::stringAsset: uno}}}\n";
    let place = TestWorkspace::with(CliKind::Real, program);
    let agent = place.serve(&["--stack", "dev"]).await;
    let mut client = agent.automation().await;
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let outputs = events_and_result(stream).await.1.unwrap().outputs;
    let printed = place.ask(&["stack", "output", "--json", "--stack", "dev"]);
    for (name, value) in printed.as_object().unwrap() {
        let output: serde_json::Value = serde_json::from_slice(&outputs[name].value).unwrap();
        assert_eq!((&output, outputs[name].secret), (value, false));
    }
}

/// Failures that operators know by their details, with the texts of the real CLI.
#[tokio::test]
async fn known_failures_have_status_details() {
    let table = [
        (Reply::conflict(), "UpdateConflict"),
        // Upstream has neither of these two.
        (Reply::locked(), "UpdateConflict"),
        (Reply::bad_token(), "InvalidAccessToken"),
        (Reply::no_token(), "InvalidAccessToken"),
    ];
    for (answer, reason) in table {
        let place = TestWorkspace::new(&answer);
        let agent = place.serve(&["--stack", "dev"]).await;
        let mut client = agent.automation().await;
        let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
        let status = events_and_result(stream).await.1.unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        let details = String::from_utf8_lossy(status.details()).into_owned();
        assert!(details.contains(reason), "{details}");
    }
}

async fn wrong_passphrase_fails(cli: CliKind) {
    let place = TestWorkspace::with_stack(cli, PROGRAM);
    let text = refused(place.variable("PULUMI_CONFIG_PASSPHRASE", "another-one")).await;
    assert!(text.contains("incorrect passphrase"), "{text}");
}

async fn missing_passphrase_fails(cli: CliKind) {
    let place = TestWorkspace::with_stack(cli, PROGRAM);
    let text = refused(place.without_variable("PULUMI_CONFIG_PASSPHRASE")).await;
    assert!(
        text.contains("passphrase must be set with PULUMI_CONFIG_PASSPHRASE"),
        "{text}"
    );
}

/// Why an update of the stack `dev` is refused.
async fn refused(place: TestWorkspace) -> String {
    let agent = place.serve(&["--stack", "dev"]).await;
    let mut client = agent.automation().await;
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let status = events_and_result(stream).await.1.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    status.message().to_owned()
}

/// Upstream's graceful shutdown: the agent ends during an update.
async fn shutdown_cancels_update(place: TestWorkspace) {
    let agent = place.serve(&["--stack", "dev"]).await;
    let mut client = agent.automation().await;
    let mut stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    loop {
        let message = stream.message().await.unwrap().unwrap();
        if format!("{message:?}").contains("resourcePreEvent") {
            break;
        }
    }
    agent.terminate();
    let (events, result) =
        within_deadline("the end of the update", events_and_result(stream)).await;
    let canceled = events.iter().any(|event| event.contains_key("cancelEvent"));
    assert!(canceled, "{events:?}");
    let status = result.unwrap_err();
    let text = status.message();
    assert_eq!(status.code(), Code::Unknown);
    // The embedded engine shows the stack without its URN.
    assert!(text.contains("pulumi:pulumi:Stack"), "{text}");
    assert!(text.contains("simple-dev"), "{text}");
    assert!(text.contains("error: update canceled"), "{text}");
    drop(client);
    assert_eq!(agent.wait_for_exit().await, Some(0));
}

#[tokio::test]
async fn shutdown_cancels_update_of_stand_in() {
    let urn = "urn:pulumi:dev::simple::pulumi:pulumi:Stack::simple-dev";
    let answer = Reply::new()
        .prints(&format!("    [urn={urn}]\n"))
        .event(json!({"sequence": 0, "resourcePreEvent": {"metadata": {"urn": urn}}}))
        .hangs();
    shutdown_cancels_update(TestWorkspace::new(&answer)).await;
}

#[tokio::test]
async fn shutdown_cancels_update_of_engine() {
    let place =
        TestWorkspace::with(CliKind::Engine, PROGRAM).variable("PKO_ENGINE_STEP_DELAY", "60s");
    shutdown_cancels_update(place).await;
}

/// Resources one after the other, so that there is a middle.
#[tokio::test]
async fn shutdown_cancels_update_of_real_cli() {
    let resource = |index: u32| {
        let input = match index.checked_sub(1) {
            Some(before) => format!("${{r{before}.output}}"),
            None => "x".to_owned(),
        };
        format!("  r{index}: {{type: 'pulumi:index:Stash', properties: {{input: '{input}'}}}}\n")
    };
    let resources: String = (0..400).map(resource).collect();
    let program = format!("name: simple\nruntime: yaml\nresources:\n{resources}");
    let place = TestWorkspace::with(CliKind::Real, &program);
    shutdown_cancels_update(place).await;
}
