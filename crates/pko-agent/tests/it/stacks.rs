//! Upstream's calls about stacks, environments and dependencies.

use pko_proto::agent::{
    AddEnvironmentsRequest, InfoRequest, InstallRequest, SelectStackRequest, WhoAmIRequest,
    automation_service_client::AutomationServiceClient,
};
use pko_testkit::{Reply, Script};
use tonic::{Code, Status, transport::Channel};

use crate::harness::{CliKind, TestWorkspace, on_each_cli, select};

on_each_cli!(
    who_am_i_returns_system_user
    selected_stack_can_be_reselected
    selecting_stack_changes_current
    missing_stack_is_not_found
    missing_stack_is_created_on_request
    unknown_secrets_provider_fails_stack_creation
    info_describes_selected_stack
    environments_require_backend_support
    yaml_project_install_succeeds
    organization_on_file_backend_fails
);

const PROGRAM: &str = "name: simple\nruntime: yaml\n";

/// Selects a stack; the name that is answered.
async fn selected(
    client: &mut AutomationServiceClient<Channel>,
    stack: &str,
    create: bool,
    secrets_provider: Option<&str>,
) -> Result<String, Status> {
    let request = SelectStackRequest {
        stack_name: stack.to_owned(),
        create: Some(create),
        secrets_provider: secrets_provider.map(str::to_owned),
    };
    let answer = client.select_stack(request).await?.into_inner();
    Ok(answer.summary.unwrap().name)
}

async fn who_am_i_returns_system_user(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let who = agent.automation().await.who_am_i(WhoAmIRequest {}).await;
    let user = std::process::Command::new("id")
        .arg("-un")
        .output()
        .unwrap();
    let user = String::from_utf8(user.stdout).unwrap();
    assert_eq!(who.unwrap().into_inner().user, user.trim());
}

async fn selected_stack_can_be_reselected(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&["--stack", "one"]).await;
    let mut client = agent.automation().await;
    let name = selected(&mut client, "one", false, None).await.unwrap();
    assert_eq!(name, "one");
    assert_eq!(place.selected().as_deref(), Some("one"));
}

async fn selecting_stack_changes_current(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    place.run(&["stack", "init", "two"]);
    let agent = place.serve(&["--stack", "one"]).await;
    let mut client = agent.automation().await;
    let name = selected(&mut client, "two", false, None).await.unwrap();
    assert_eq!(name, "two");
    assert_eq!(place.selected().as_deref(), Some("two"));
}

async fn missing_stack_is_not_found(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    let status = selected(&mut client, "none", false, None)
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::NotFound, "stack not found")
    );
}

async fn missing_stack_is_created_on_request(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    let name = selected(&mut client, "new", true, None).await.unwrap();
    assert_eq!(name, "new");
    assert_eq!(place.selected().as_deref(), Some("new"));
}

async fn unknown_secrets_provider_fails_stack_creation(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    let outcome = selected(&mut client, "new", true, Some("bad")).await;
    let status = outcome.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    let text = status.message();
    assert!(
        text.starts_with("failed to create stack: exit status "),
        "{text}"
    );
    assert!(
        text.contains("unknown secrets provider type 'bad'"),
        "{text}"
    );
}

async fn info_describes_selected_stack(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    let status = client.info(InfoRequest {}).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::FailedPrecondition, "no stack is selected")
    );
    select(&mut client, "dev").await;
    let info = client.info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.summary.unwrap().name, "dev");
    // The list that the CLI prints has short names only.
    select(&mut client, "organization/simple/dev").await;
    let info = client.info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.summary.unwrap().name, "dev");
}

async fn environments_require_backend_support(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    let request = || AddEnvironmentsRequest {
        environment: vec!["org/env".to_owned()],
    };
    let status = client.add_environments(request()).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::FailedPrecondition, "no stack is selected")
    );
    select(&mut client, "dev").await;
    let status = client.add_environments(request()).await.unwrap_err();
    let text = status.message();
    assert!(
        text.starts_with("unable to add environments: exit status 1"),
        "{text}"
    );
    assert!(text.contains("does not support environments"), "{text}");
}

async fn yaml_project_install_succeeds(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    client.install(InstallRequest {}).await.unwrap();
}

#[tokio::test]
async fn failed_install_is_aborted_with_text() {
    let script = Script::new().on("install", Reply::no_go_module());
    let place = TestWorkspace::scripted(&script);
    place.write("Pulumi.yaml", "name: simple\nruntime: go\n");
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    let status = client.install(InstallRequest {}).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
    let text = status.message();
    assert!(
        text.starts_with("could not install dependencies: exit status 1"),
        "{text}"
    );
    assert!(text.contains("go.mod file not found"), "{text}");
}

#[tokio::test]
async fn whoami_with_bad_token_has_details() {
    let script = Script::new().on("whoami", Reply::bad_token());
    let place = TestWorkspace::scripted(&script);
    let agent = place.serve(&[]).await;
    let status = agent.automation().await.who_am_i(WhoAmIRequest {}).await;
    let status = status.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    let text = status.message();
    assert!(text.starts_with("whoami failed: "), "{text}");
    let details = String::from_utf8_lossy(status.details()).into_owned();
    assert!(details.contains("InvalidAccessToken"), "{details}");
}

/// Organizations exist in Pulumi Cloud only; the CLI's error is passed on.
async fn organization_on_file_backend_fails(cli: CliKind) {
    let place = TestWorkspace::with(cli, PROGRAM);
    let agent = place.serve(&[]).await;
    let mut client = agent.automation().await;
    for stack in ["acme/simple/dev", "acme/dev"] {
        let status = selected(&mut client, stack, true, None).await.unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        let text = status.message();
        let expected = "organization name must be 'organization'";
        assert!(text.contains(expected), "{text}");
    }
}
