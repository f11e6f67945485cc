//! Requests of runs, and their responses.

use pko_proto::{
    agent::{
        ConfigItem, SelectStackRequest, UpRequest, UpResult, UpStream,
        automation_service_client::AutomationServiceClient, up_stream,
    },
    convert::{from_proto_struct, literal_config},
    run::{
        CancelRunRequest, GetRunRequest, Run, RunEvent, RunResult, RunStack, StackConfig,
        StartRunRequest, WatchRunRequest, run_event, run_service_client::RunServiceClient,
        start_run_request,
    },
};
use serde_json::{Map, Value};
use tonic::{Status, Streaming, transport::Channel};

/// A request for an update of the stack `dev`, which is created.
pub(crate) fn update(run_id: &str) -> StartRunRequest {
    StartRunRequest {
        run_id: run_id.to_owned(),
        stack: Some(RunStack {
            name: "dev".to_owned(),
            create: true,
            ..Default::default()
        }),
        operation: Some(start_run_request::Operation::Up(UpRequest {
            message: Some(run_id.to_owned()),
            ..Default::default()
        })),
        ..Default::default()
    }
}

pub(crate) fn configured(run_id: &str, config: StackConfig) -> StartRunRequest {
    let mut request = update(run_id);
    request.stack.as_mut().unwrap().config = Some(config);
    request
}

/// A literal value, with a key that is not a path.
pub(crate) fn literal(key: &str, value: impl Into<Value>, secret: bool) -> ConfigItem {
    literal_config(key, &value.into(), false, secret)
}

pub(crate) async fn get(client: &mut RunServiceClient<Channel>, run_id: &str) -> Run {
    let run_id = run_id.to_owned();
    client
        .get_run(GetRunRequest { run_id })
        .await
        .unwrap()
        .into_inner()
}

pub(crate) async fn cancel(client: &mut RunServiceClient<Channel>, run_id: &str) -> Run {
    let run_id = run_id.to_owned();
    let canceled = client.cancel_run(CancelRunRequest { run_id }).await;
    canceled.unwrap().into_inner()
}

pub(crate) async fn watch(
    client: &mut RunServiceClient<Channel>,
    run_id: &str,
    after_sequence: u64,
) -> Streaming<RunEvent> {
    let request = WatchRunRequest {
        run_id: run_id.to_owned(),
        after_sequence,
    };
    client.watch_run(request).await.unwrap().into_inner()
}

/// The sequence numbers of the remaining events, and the result.
pub(crate) async fn remaining_events(
    mut events: Streaming<RunEvent>,
) -> (Vec<u64>, Option<RunResult>) {
    let mut numbers = Vec::new();
    while let Some(event) = events.message().await.unwrap() {
        numbers.push(event.sequence);
        if let Some(run_event::Event::Result(result)) = event.event {
            assert!(
                events.message().await.unwrap().is_none(),
                "the result is the last"
            );
            return (numbers, Some(result));
        }
    }
    (numbers, None)
}

/// Watches a run to its end.
pub(crate) async fn wait_for_result(
    client: &mut RunServiceClient<Channel>,
    run_id: &str,
) -> RunResult {
    let events = watch(client, run_id, 0).await;
    remaining_events(events).await.1.unwrap()
}

/// Selects a stack, and creates it if it is missing.
pub(crate) async fn select(client: &mut AutomationServiceClient<Channel>, stack: &str) {
    let request = SelectStackRequest {
        stack_name: stack.to_owned(),
        create: Some(true),
        secrets_provider: None,
    };
    client.select_stack(request).await.unwrap();
}

/// The events of an upstream stream, and its result or error.
pub(crate) async fn events_and_result(
    mut stream: Streaming<UpStream>,
) -> (Vec<Map<String, Value>>, Result<UpResult, Status>) {
    let mut events = Vec::new();
    loop {
        match stream.message().await {
            Ok(Some(message)) => match message.response.unwrap() {
                up_stream::Response::Event(event) => events.push(from_proto_struct(&event)),
                up_stream::Response::Result(result) => {
                    let end = stream.message().await.unwrap();
                    assert!(end.is_none(), "the result is the last");
                    return (events, Ok(result));
                }
            },
            Ok(None) => panic!("no result"),
            Err(status) => return (events, Err(status)),
        }
    }
}
