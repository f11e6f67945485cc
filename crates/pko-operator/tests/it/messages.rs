//! What users read: names, plain text, one sentence; and a log in which only changes are news.

use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use pko_api::{Stack, Workspace};
use pko_testkit::{
    ProgramBuilder, StackBuilder, TestNamespace, WorkspaceBuilder, eventually,
    flux::{ArtifactServer, SourceKind, TestSource},
};
use serde_json::{Value, json};

use crate::{
    events::Trail,
    harness::{System, with_namespace},
    scripted_stacks::{credentials, publish},
};

#[tokio::test]
async fn missing_program_is_named() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        let stack = StackBuilder::new("demo").stack("dev").program("nosuch");
        let trail = Trail::of(namespace, "demo");
        namespace.create_object(stack.build()).await.unwrap();
        let message = "unable to retrieve program for stack: Program \"nosuch\" does not exist";
        trail
            .until(&format!("Stalled SourceUnavailable: {message}"))
            .await;
    })
    .await;
}

/// A Workspace whose program does not match its digest.
async fn create_workspace_of_wrong_digest(namespace: &TestNamespace, server: &ArtifactServer) {
    let source = TestSource::new(SourceKind::GitRepository, namespace.name(), "infra");
    let revision = source.revision("first");
    let artifact = server.publish(&source, &revision, &[("Pulumi.yaml", "name: app")]);
    let digest = format!("sha256:{}", "0".repeat(64));
    let workspace = WorkspaceBuilder::new("demo").set(
        "/spec/flux",
        json!({ "url": artifact.url, "digest": digest }),
    );
    namespace.create_object(workspace.build()).await.unwrap();
}

/// The message of the Workspace's condition, once it is about the fetch.
async fn fetch_failure(namespace: &TestNamespace) -> String {
    let failure = eventually("the fetch to fail", async || {
        let workspace = namespace.api::<Workspace>().get("demo").await.unwrap();
        let conditions = workspace.status.unwrap_or_default().conditions;
        let ready = conditions.into_iter().find(|found| found.type_ == "Ready");
        let message = ready.map(|ready| ready.message).unwrap_or_default();
        if message.contains("digest") {
            Ok(message)
        } else {
            Err(message)
        }
    });
    failure.await.unwrap()
}

fn assert_one_sentence(message: &str, start: &str) {
    assert!(message.starts_with(start), "{message}");
    for part in ["\t", "\n", "ERROR", "INFO", "cmd.init"] {
        assert!(!message.contains(part), "{part:?} is in {message:?}");
    }
}

#[tokio::test]
async fn fetch_failure_is_one_sentence_in_a_process() {
    let system = System::start(&[]).await;
    let server = ArtifactServer::start().unwrap();
    with_namespace(&system, async |namespace| {
        create_workspace_of_wrong_digest(namespace, &server).await;
        let message = fetch_failure(namespace).await;
        assert_one_sentence(&message, "failed to fetch the program: ");
    })
    .await;
}

#[tokio::test]
async fn fetch_failure_is_one_sentence_in_a_pod() {
    let system = System::in_pods(&[]).await;
    let server = ArtifactServer::start().unwrap();
    with_namespace(&system, async |namespace| {
        create_workspace_of_wrong_digest(namespace, &server).await;
        let message = fetch_failure(namespace).await;
        let start = "init container \"fetch\" failed with exit code 1: Error";
        assert_one_sentence(&message, start);
    })
    .await;
}

/// How often it was decided on Stacks, as the log has it at a level.
fn decisions(log: &str, level: &str) -> usize {
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let is_wanted = |line: &Value| line["msg"] == "Stack decided" && line["level"] == level;
    lines.filter(is_wanted).count()
}

#[tokio::test]
async fn decision_that_changes_nothing_is_logged_at_debug() {
    let system = System::start(&[("PKO_LOG", "debug,kube=info,hyper=info,h2=info")]).await;
    with_namespace(&system, async |namespace| {
        namespace.create_object(credentials()).await.unwrap();
        publish(
            namespace,
            ProgramBuilder::new("demo").output("a", "b").build(),
        )
        .await;
        let trail = Trail::of(namespace, "demo");
        let stack = StackBuilder::new("demo")
            .stack("dev")
            .backend(&system.backend())
            .program("demo")
            .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase");
        namespace.create_object(stack.build()).await.unwrap();
        trail.until("Ready").await;
        trail.wait_for_event("StackCreated").await;
        assert!(decisions(&system.manager_log(), "info") > 0);

        // The first look after the last change may be at another rule than the one before.
        touch_until_decided(&system, namespace, 1).await;
        let told = decisions(&system.manager_log(), "info");
        touch_until_decided(&system, namespace, 3).await;
        assert_eq!(decisions(&system.manager_log(), "info"), told);
    })
    .await;
}

/// Changes a Stack so that it is looked at and nothing is to be done, until that was decided so
/// often.
async fn touch_until_decided(system: &System, namespace: &TestNamespace, times: usize) {
    let stacks = namespace.api::<Stack>();
    let before = decisions(&system.manager_log(), "debug");
    let decided = eventually("decisions at level debug", async || {
        let stack = stacks.get("demo").await.unwrap();
        let touched = stack.resource_version().unwrap_or_default();
        let change = json!({ "metadata": { "labels": { "touched": touched } } });
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(change));
        stacks.patch("demo", &parameters, &patch).await.unwrap();
        let now = decisions(&system.manager_log(), "debug");
        if now >= before + times {
            Ok(())
        } else {
            Err(format!("{before} before, {now} now"))
        }
    });
    decided.await.unwrap();
}
