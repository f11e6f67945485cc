//! A Workspace whose program is in a git repository, with credentials from a Secret.

use pko_api::{Update, Workspace};
use pko_testkit::{
    TestNamespace, eventually,
    git_server::{GitServer, TestFile, TestRepository},
};
use serde_json::{Value, json};

use crate::harness::System;

const PROGRAM: &str = "name: demo\nruntime: yaml\noutputs:\n  greeting: hello\n";

async fn condition(namespace: &TestNamespace, name: &str, kind: &str) -> Option<(String, String)> {
    let workspace = namespace.api::<Workspace>().get(name).await.unwrap();
    let conditions = workspace
        .status
        .map(|status| status.conditions)
        .unwrap_or_default();
    let found = conditions
        .into_iter()
        .find(|condition| condition.type_ == kind)?;
    Some((found.status, found.message))
}

fn workspace(name: &str, system: &System, git: &Value) -> Value {
    json!({
        "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Workspace", "metadata": { "name": name },
        "spec": {
            "git": git,
            "env": [
                { "name": "PULUMI_BACKEND_URL", "value": system.backend() },
                { "name": "PULUMI_CONFIG_PASSPHRASE", "value": "correct-horse" },
            ],
            "stacks": [{ "name": "dev", "create": true }],
        },
    })
}

#[tokio::test]
async fn workspace_git_program_is_fetched_and_run() {
    let repositories = tempfile::tempdir().unwrap();
    let repository = TestRepository::create(repositories.path(), "app.git").unwrap();
    let commit = repository
        .commit("main", &[TestFile::plain("infra/Pulumi.yaml", PROGRAM)])
        .unwrap();
    let server = GitServer::start(repositories.path()).unwrap();
    server.require("git", "canary-of-git");
    let system = System::start(&[]).await;
    let namespace = system.namespace().await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "git" },
        "stringData": { "accessToken": "canary-of-git" },
    });
    namespace.create_object(secret).await.unwrap();
    let git = json!({
        "url": server.url("app.git"), "ref": commit, "dir": "infra", "shallow": true,
        "auth": { "token": { "name": "git", "key": "accessToken" } },
    });
    namespace
        .create_object(workspace("good", &system, &git))
        .await
        .unwrap();
    let without = json!({ "url": server.url("app.git"), "ref": commit });
    namespace
        .create_object(workspace("bad", &system, &without))
        .await
        .unwrap();
    let outside = json!({ "url": server.url("app.git"), "ref": commit, "dir": "../.." });
    namespace
        .create_object(workspace("outside", &system, &outside))
        .await
        .unwrap();

    eventually("the Workspace to be ready", async || {
        let ready = condition(&namespace, "good", "Ready").await;
        if ready.as_ref().is_some_and(|(status, _)| status == "True") {
            Ok(())
        } else {
            Err(format!("{ready:?}"))
        }
    })
    .await
    .unwrap();
    // Written by hand, so that it has no owner: it gets one, and runs.
    let update = json!({
        "apiVersion": "auto.pulumi.com/v1alpha1", "kind": "Update", "metadata": { "name": "first" },
        "spec": { "workspaceName": "good", "stackName": "dev", "type": "up" },
    });
    namespace.create_object(update).await.unwrap();
    let status = eventually("the Update to be complete", async || {
        let update = namespace.api::<Update>().get("first").await.unwrap();
        let status = update.status.unwrap_or_default();
        let is_complete = status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Complete" && condition.status == "True");
        if is_complete {
            Ok(status)
        } else {
            Err(format!("{status:?}"))
        }
    })
    .await
    .unwrap();
    assert_eq!(
        status.outputs.as_deref(),
        Some("first-stack-outputs"),
        "{status:?}"
    );
    assert_eq!(system.executed("demo", "dev"), 1);
    let update = namespace.api::<Update>().get("first").await.unwrap();
    assert_eq!(update.metadata.owner_references.unwrap()[0].name, "good");

    let refused = eventually("the Workspace without credentials to say so", async || {
        let ready = condition(&namespace, "bad", "Ready").await;
        let told = ready
            .as_ref()
            .is_some_and(|(_, message)| message.contains("authentication required"));
        if told {
            Ok(ready)
        } else {
            Err(format!("{ready:?}"))
        }
    });
    assert!(!format!("{:?}", refused.await.unwrap()).contains("canary"));
    let stalled = eventually("the Workspace that leads outside to say so", async || {
        condition(&namespace, "outside", "Stalled")
            .await
            .ok_or("not yet")
    });
    let (status, message) = stalled.await.unwrap();
    assert_eq!(
        (&*status, &*message),
        ("True", "spec.git.dir: `../..` leads out of the source")
    );
}
