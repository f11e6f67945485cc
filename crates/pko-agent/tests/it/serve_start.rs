//! What happens before the agent serves.

use std::fs;

use pko_proto::agent::InfoRequest;

use crate::harness::{Agent, CliKind, TestWorkspace, on_each_cli};

on_each_cli!(
    simple_project_is_served
    stack_flag_creates_and_selects_stack
    unknown_secrets_provider_fails_start
);

const PROGRAM: &str = "name: simple\nruntime: yaml\n";

async fn simple_project_is_served(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    agent.terminate();
    assert_eq!(agent.wait_for_exit().await, Some(0));
}

async fn stack_flag_creates_and_selects_stack(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&["--stack", "new"]).await;
    let info = agent.automation().await.info(InfoRequest {}).await.unwrap();
    assert_eq!(info.into_inner().summary.unwrap().name, "new");
    assert_eq!(place.selected().as_deref(), Some("new"));
}

async fn unknown_secrets_provider_fails_start(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let flags = ["--stack", "new", "--secrets-provider", "bad"];
    let (code, log) = Agent::start_failure(&place, &flags).await;
    assert_eq!(code, Some(1));
    assert!(log.contains("unknown secrets provider type 'bad'"), "{log}");
}

#[tokio::test]
async fn failed_install_does_not_prevent_serving() {
    let place = TestWorkspace::with(CliKind::StandIn, "name: simple\nruntime: go\n");
    let agent = place.serve(&[]).await;
    assert_eq!(place.count("install"), 0);
    agent.terminate();
    assert_eq!(agent.wait_for_exit().await, Some(0));
}

#[tokio::test]
async fn folder_without_project_fails_start() {
    let place = TestWorkspace::with(CliKind::StandIn, PROGRAM);
    fs::remove_file(place.workspace().join("Pulumi.yaml")).unwrap();
    let (code, log) = Agent::start_failure(&place, &[]).await;
    assert_eq!(code, Some(1));
    assert!(
        log.contains("unable to find project settings in workspace"),
        "{log}"
    );
}
