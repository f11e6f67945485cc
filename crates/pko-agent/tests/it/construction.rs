//! What happens before the agent serves.

use std::fs;

use pko_proto::agent::InfoRequest;

use crate::harness::{Agent, Cli, Place, on_each_cli};

on_each_cli!(
    a_simple_project_is_served
    a_stack_that_the_flags_name_is_created_and_current
    a_secrets_provider_that_is_unknown_is_an_error
);

const PROGRAM: &str = "name: simple\nruntime: yaml\n";

async fn a_simple_project_is_served(cli: Cli) {
    let place = Place::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    agent.terminate();
    assert_eq!(agent.ended().await, Some(0));
}

async fn a_stack_that_the_flags_name_is_created_and_current(cli: Cli) {
    let place = Place::with(cli, PROGRAM);
    let agent = place.serve(&["--stack", "new"]).await;
    let info = agent.automation().await.info(InfoRequest {}).await.unwrap();
    assert_eq!(info.into_inner().summary.unwrap().name, "new");
    assert_eq!(place.selected().as_deref(), Some("new"));
}

async fn a_secrets_provider_that_is_unknown_is_an_error(cli: Cli) {
    let place = Place::with(cli, PROGRAM);
    let flags = ["--stack", "new", "--secrets-provider", "bad"];
    let (code, log) = Agent::refused(&place, &flags).await;
    assert_eq!(code, Some(1));
    assert!(log.contains("unknown secrets provider type 'bad'"), "{log}");
}

#[tokio::test]
async fn a_project_that_can_not_be_installed_is_served_all_the_same() {
    let place = Place::with(Cli::StandIn, "name: simple\nruntime: go\n");
    let agent = place.serve(&[]).await;
    assert_eq!(place.count("install"), 0);
    agent.terminate();
    assert_eq!(agent.ended().await, Some(0));
}

#[tokio::test]
async fn a_folder_without_a_project_is_an_error() {
    let place = Place::with(Cli::StandIn, PROGRAM);
    fs::remove_file(place.workspace().join("Pulumi.yaml")).unwrap();
    let (code, log) = Agent::refused(&place, &[]).await;
    assert_eq!(code, Some(1));
    assert!(
        log.contains("unable to find project settings in workspace"),
        "{log}"
    );
}
