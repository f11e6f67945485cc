//! Which callers are admitted, by mode and kind of token, with a real API server for reviews.

mod kube;
mod manager;

use std::process::Command;

use pko_proto::{
    agent::{
        PreviewRequest, PulumiVersionRequest, automation_service_client::AutomationServiceClient,
    },
    run::{ListRunsRequest, WatchRunRequest, run_service_client::RunServiceClient},
};
use tonic::{Code, Request, Response, Status, Streaming, metadata::MetadataValue};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::harness::{Agent, TestWorkspace, simple};

/// The Workspace in most tests, and the audience of its tokens.
const AUDIENCE: &str = "ws.ns";

type CallResult = (Code, String);

/// What an agent answers to each kind of call: unary and streaming, of both services.
async fn answers(agent: &Agent, authorization: Option<&str>) -> [CallResult; 4] {
    let authorization = authorization.map(|text| MetadataValue::try_from(text).unwrap());
    let authorize = move |mut request: Request<()>| {
        if let Some(value) = &authorization {
            request
                .metadata_mut()
                .insert("authorization", value.clone());
        }
        Ok(request)
    };
    let channel = agent.channel().await;
    let automation = AutomationServiceClient::with_interceptor(channel.clone(), authorize.clone());
    let runs = RunServiceClient::with_interceptor(channel, authorize);
    let unknown_run = WatchRunRequest {
        run_id: "unknown".to_owned(),
        ..Default::default()
    };
    let answers = tokio::join!(
        async {
            unary(
                automation
                    .clone()
                    .pulumi_version(PulumiVersionRequest {})
                    .await,
            )
        },
        async { unary(runs.clone().list_runs(ListRunsRequest {}).await) },
        async { streamed(automation.clone().preview(PreviewRequest::default()).await).await },
        async { streamed(runs.clone().watch_run(unknown_run).await).await },
    );
    answers.into()
}

fn unary<T>(response: Result<Response<T>, Status>) -> CallResult {
    answer(response.map(drop))
}

async fn streamed<T>(response: Result<Response<Streaming<T>>, Status>) -> CallResult {
    match response {
        Ok(stream) => answer(stream.into_inner().message().await.map(drop)),
        Err(status) => answer(Err(status)),
    }
}

fn answer(result: Result<(), Status>) -> CallResult {
    match result {
        Ok(()) => (Code::Ok, String::new()),
        Err(status) => (status.code(), status.message().to_owned()),
    }
}

/// All kinds of calls are refused with this.
async fn assert_rejected(agent: &Agent, authorization: Option<&str>, code: Code, message: &str) {
    let answers = answers(agent, authorization).await;
    let refused = (code, message.to_owned());
    assert!(
        answers.iter().all(|answer| *answer == refused),
        "{refused:?} is wanted: {answers:?}"
    );
}

/// All kinds of calls come to their service, which has nothing to stream here.
async fn gets_in(agent: &Agent, authorization: Option<&str>) {
    let codes = answers(agent, authorization).await.map(|(code, _)| code);
    let expected = [Code::Ok, Code::Ok, Code::FailedPrecondition, Code::NotFound];
    assert_eq!(codes, expected);
}

async fn health_is_free(agent: &Agent) {
    let mut health = HealthClient::new(agent.channel().await);
    let request = || HealthCheckRequest::default();
    let answer = health.check(request()).await.unwrap().into_inner();
    assert_eq!(answer.status(), ServingStatus::Serving);
    let mut watched = health.watch(request()).await.unwrap().into_inner();
    let answer = watched.message().await.unwrap().unwrap();
    assert_eq!(answer.status(), ServingStatus::Serving);
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// What is refused in every mode before anybody looks at a token.
async fn needs_a_bearer_token(agent: &Agent) {
    let missing = "Request unauthenticated with Bearer";
    for (authorization, message) in [
        (None, missing),
        (Some("basic dXNlcjpwYXNzd29yZA=="), missing),
        (Some("garbage"), "Bad authorization string"),
    ] {
        assert_rejected(agent, authorization, Code::Unauthenticated, message).await;
    }
}

#[tokio::test]
async fn auth_mode_none_accepts_all_callers() {
    let place = TestWorkspace::new(&simple());
    let agent = place.serve(&["--auth-mode", "none"]).await;
    gets_in(&agent, None).await;
    gets_in(&agent, Some("basic x")).await;
    health_is_free(&agent).await;
}

#[test]
fn missing_auth_flag_fails_start() {
    let place = TestWorkspace::new(&simple());
    let audience = ["--kube-audience", AUDIENCE];
    let nothing: &[&str] = &[];
    let table = [
        ("basic", nothing, "", "unsupported auth mode: basic"),
        (
            "kube",
            nothing,
            "",
            "--auth-mode kube needs --kube-audience",
        ),
        (
            "manager",
            &audience,
            "",
            "--auth-mode manager needs --manager-public-key, or PKO_MANAGER_PUBLIC_KEY",
        ),
        (
            "kube,manager",
            &audience,
            "no key",
            "PKO_MANAGER_PUBLIC_KEY has no public key of a manager",
        ),
    ];
    for (mode, flags, keys, expected) in table {
        let output = Command::new(env!("CARGO_BIN_EXE_agent"))
            .args(["serve", "--auth-mode", mode, "--workspace"])
            .arg(place.workspace())
            .args(flags)
            .env("PKO_MANAGER_PUBLIC_KEY", keys)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{expected} is wanted: {said}");
    }
}
