//! Upstream's service, as upstream's operator uses it.

use pko_proto::{
    agent::{
        AddEnvironmentsRequest, DestroyRequest, InfoRequest, InstallRequest, PreviewRequest,
        PulumiVersionRequest, RefreshRequest, SelectStackRequest, SetAllConfigRequest, UpRequest,
        UpResult, UpStream, WhoAmIRequest, automation_service_client::AutomationServiceClient,
        preview_stream, up_stream,
    },
    convert::{from_proto_struct, literal_config},
    run::ListRunsRequest,
};
use pko_testkit::Reply;
use serde_json::json;
use tonic::{Code, Streaming, transport::Channel};

use crate::harness::{TestWorkspace, gated, obedient, simple};

fn select(create: bool) -> SelectStackRequest {
    SelectStackRequest {
        stack_name: "dev".to_owned(),
        create: Some(create),
        secrets_provider: None,
    }
}

async fn selected(client: &mut AutomationServiceClient<Channel>) {
    client.select_stack(select(true)).await.unwrap();
}

async fn to_the_result(mut stream: Streaming<UpStream>) -> (usize, UpResult) {
    let mut events = 0;
    while let Some(message) = stream.message().await.unwrap() {
        match message.response.unwrap() {
            up_stream::Response::Event(event) => {
                assert!(from_proto_struct(&event).contains_key("sequence"));
                events += 1;
            }
            up_stream::Response::Result(result) => return (events, result),
        }
    }
    panic!("no result");
}

#[tokio::test]
async fn operator_call_sequence_succeeds() {
    let script = TestWorkspace::script(&simple()).on("config env", Reply::new());
    let place = TestWorkspace::scripted(&script);
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    let version = client
        .pulumi_version(PulumiVersionRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(version.version, "3.259.0");
    client.install(InstallRequest {}).await.unwrap();
    let stack = client
        .select_stack(select(true))
        .await
        .unwrap()
        .into_inner()
        .summary
        .unwrap();
    assert_eq!((&*stack.name, stack.url.as_deref()), ("dev", Some("")));
    let config = vec![literal_config("foo", &json!("bar"), false, false)];
    client
        .set_all_config(SetAllConfigRequest { config })
        .await
        .unwrap();
    let environment = vec!["org/env".to_owned()];
    client
        .add_environments(AddEnvironmentsRequest { environment })
        .await
        .unwrap();
    let stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    let (events, result) = to_the_result(stream).await;
    assert_eq!(events, 4);
    assert_eq!(result.summary.unwrap().result, "succeeded");
    assert_eq!(result.outputs["size"].value, b"4");
    assert_eq!(result.project_info.unwrap().runtime, "yaml");
    let expected = [
        "install",
        "stack select",
        "stack init",
        "config set-all",
        "config env",
        "up --yes",
    ];
    assert_eq!(place.calls(), expected);
    // Such runs are the call's own, and leave nothing behind.
    let list = agent
        .runs()
        .await
        .list_runs(ListRunsRequest {})
        .await
        .unwrap();
    assert!(list.into_inner().runs.is_empty());
}

#[tokio::test]
async fn remaining_calls_succeed() {
    let listed = r#"[{"name": "dev", "current": true, "resourceCount": 2}]"#;
    let script =
        TestWorkspace::script(&simple()).on_call("stack ls", 1, Reply::new().prints(listed));
    let place = TestWorkspace::scripted(&script).variable("USER", "tester");
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    let who = client
        .who_am_i(WhoAmIRequest {})
        .await
        .unwrap()
        .into_inner();
    let url = format!("file://{}", place.path("state").display());
    assert_eq!((&*who.user, &*who.url), ("tester", &*url));
    selected(&mut client).await;
    let info = client
        .info(InfoRequest {})
        .await
        .unwrap()
        .into_inner()
        .summary
        .unwrap();
    assert_eq!((&*info.name, info.resource_count), ("dev", Some(2)));
    let mut preview = client
        .preview(PreviewRequest::default())
        .await
        .unwrap()
        .into_inner();
    let result = loop {
        let message = preview.message().await.unwrap().unwrap();
        if let Some(preview_stream::Response::Result(result)) = message.response {
            break result;
        }
    };
    assert!(result.summary.is_none() && result.project_info.is_some());
    let mut refresh = client
        .refresh(RefreshRequest::default())
        .await
        .unwrap()
        .into_inner();
    while refresh.message().await.unwrap().is_some() {}
    let options = DestroyRequest {
        remove: Some(true),
        ..Default::default()
    };
    let mut destroy = client.destroy(options).await.unwrap().into_inner();
    while destroy.message().await.unwrap().is_some() {}
    assert_eq!(place.count("stack rm"), 1);
    let status = client.info(InfoRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn error_statuses_are_upstreams() {
    let place = TestWorkspace::new(&simple());
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    let status = client.up(UpRequest::default()).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::FailedPrecondition, "no stack is selected")
    );
    let status = client.select_stack(select(false)).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::NotFound, "stack not found")
    );
    let status = client
        .select_stack(SelectStackRequest::default())
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "invalid stack name")
    );
}

#[tokio::test]
async fn failure_is_a_status_with_details() {
    let text = "error: [409] Conflict: Another update is currently in progress.";
    let failure = Reply::new()
        .event(json!({"sequence": 0}))
        .prints_error(&format!("{text}\n"))
        .exits(255);
    let place = TestWorkspace::new(&failure);
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    selected(&mut client).await;
    let mut stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    assert!(stream.message().await.unwrap().is_some());
    let status = stream.message().await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    let expected = format!(
        "up failed: failed to run update: exit status 255\ncode: 255\nstdout: \nstderr: {text}\n\n"
    );
    assert_eq!(status.message(), expected);
    let details = String::from_utf8_lossy(status.details()).into_owned();
    assert!(details.contains("type.googleapis.com/agent.PulumiErrorInfo"));
    assert!(details.contains("UpdateConflict"));
}

#[tokio::test]
async fn disconnected_caller_interrupts_its_run() {
    let place = TestWorkspace::new(&obedient());
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    selected(&mut client).await;
    let mut stream = client.up(UpRequest::default()).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap();
    drop(stream);
    // Waits for the session, and so for the end of the run.
    selected(&mut client).await;
    let log = agent.log();
    assert!(log.contains("The caller of a run disconnected"), "{log}");
    assert!(
        log.contains("Interrupting pulumi") && !log.contains("Killing pulumi"),
        "{log}"
    );
}

#[tokio::test]
async fn concurrent_calls_are_serialized() {
    let place = TestWorkspace::new(&gated());
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    selected(&mut client).await;
    let first = client.up(UpRequest::default()).await.unwrap().into_inner();
    let mut other = agent.automation().await;
    let second = tokio::spawn(async move {
        to_the_result(other.up(UpRequest::default()).await.unwrap().into_inner()).await
    });
    place.open_gate();
    assert_eq!(to_the_result(first).await.0, 3);
    assert_eq!(second.await.unwrap().0, 3);
    assert_eq!(place.count("up"), 2);
}
