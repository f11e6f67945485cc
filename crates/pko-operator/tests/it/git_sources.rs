//! Stacks whose programs are in git: real servers over HTTP and SSH, credentials from Secrets, and
//! servers that are away.

use std::net::TcpListener;

use kube::api::ListParams;
use pko_api::{Stack, Update, Workspace};
use pko_testkit::{
    StackBuilder, TestNamespace, eventually,
    git_server::{
        Fault, GitServer, TestFile, TestRepository,
        sshd::{KeyPair, Sshd},
    },
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    events::Trail,
    harness::{System, Watched, with_namespace},
    scripted_stacks::patch_stack,
};

/// Branches are looked at often.
const OFTEN: [(&str, &str); 1] = [("PKO_GIT_POLL_INTERVAL", "1s")];

/// A repository that is served over HTTP.
struct Served {
    folder: TempDir,
    repository: TestRepository,
    server: GitServer,
}

impl Served {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            repository: TestRepository::create(folder.path(), "app.git").unwrap(),
            server: GitServer::start(folder.path()).unwrap(),
            folder,
        }
    }

    fn url(&self) -> String {
        self.server.url("app.git")
    }

    fn push(&self, branch: &str, greeting: &str) -> String {
        push(&self.repository, branch, greeting)
    }
}

fn push(repository: &TestRepository, branch: &str, greeting: &str) -> String {
    let program = format!("name: app\nruntime: yaml\noutputs:\n  greeting: {greeting}\n");
    let files = [TestFile::plain("infra/Pulumi.yaml", program)];
    repository.commit(branch, &files).unwrap()
}

/// A Stack whose program is in the folder `infra` of a repository.
fn stack(system: &System, name: &str, url: &str) -> StackBuilder {
    StackBuilder::new(name)
        .stack(name)
        .backend(&system.backend())
        .set("/spec/projectRepo", url)
        .set("/spec/repoDir", "infra")
        .set(
            "/spec/envRefs",
            json!({ "PULUMI_CONFIG_PASSPHRASE": { "type": "Literal", "literal": { "value": "correct-horse" } } }),
        )
}

async fn secret(namespace: &TestNamespace, name: &str, values: Value) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": values,
    });
    namespace.create_object(secret).await.unwrap();
}

/// A reference to a key of a Secret.
fn key(name: &str, key: &str) -> Value {
    json!({ "type": "Secret", "secret": { "name": name, "key": key } })
}

async fn greeting(trail: &Trail) -> Value {
    let outputs = trail.stack().await.status.unwrap().outputs.unwrap();
    outputs["greeting"].clone()
}

async fn commit(trail: &Trail) -> String {
    let last = trail.stack().await.status.unwrap().last_update.unwrap();
    last.last_successful_commit.unwrap()
}

async fn git_of(namespace: &TestNamespace, name: &str) -> Value {
    let workspace = namespace.api::<Workspace>().get(name).await.unwrap();
    serde_json::to_value(workspace.spec.git).unwrap()
}

/// No secret is in anything that users read.
fn no_canary(text: &str) {
    assert!(!text.contains("canary"), "{text}");
}

/// 132 with a real server: a branch is followed, a commit and a tag are not.
#[tokio::test]
async fn git_branch_is_followed_and_commit_is_not() {
    let served = Served::start();
    let first = served.push("main", "first");
    served.repository.git(&["tag", "v1", &first]).unwrap();
    let system = System::start(&OFTEN).await;
    with_namespace(&system, async |namespace| {
        let url = served.url();
        let [branch, pinned, tag] =
            ["branch", "pinned", "tag"].map(|name| Trail::of(namespace, name));
        for (name, field, revision) in [
            ("branch", "/spec/branch", "main"),
            ("pinned", "/spec/commit", first.as_str()),
            ("tag", "/spec/commit", "refs/tags/v1"),
        ] {
            let stack = stack(&system, name, &url).set(field, revision);
            namespace.create_object(stack.build()).await.unwrap();
        }
        for trail in [&branch, &pinned, &tag] {
            trail.until("Ready").await;
            assert_eq!(greeting(trail).await, "first");
            assert_eq!(commit(trail).await, first);
        }
        let expected = json!({ "url": url, "ref": first, "dir": "infra" });
        assert_eq!(git_of(namespace, "branch").await, expected);

        let second = served.push("main", "second");
        let seen = branch.until("Ready").await;
        assert!(seen.len() > 1, "it was at work in between: {seen:?}");
        assert_eq!(greeting(&branch).await, "second");
        assert_eq!(commit(&branch).await, second);
        let told = format!("Normal StackUpdateDetected: New commit detected: \"{second}\"");
        branch.wait_for_event(&told).await;

        // A revision that is not polled is resolved again for each requested run.
        served.repository.git(&["tag", "-f", "v1", &second]).unwrap();
        let request = json!({ "metadata": { "annotations": { "pulumi.com/reconciliation-request": "now" } } });
        patch_stack(namespace, "tag", request.clone()).await;
        patch_stack(namespace, "pinned", request).await;
        tag.until("Ready").await;
        pinned.until("Ready").await;
        assert_eq!(greeting(&tag).await, "second");
        assert_eq!(greeting(&pinned).await, "first");
    })
    .await;
}

/// Each way to log in, and a Secret that is not there at first.
#[tokio::test]
async fn git_credentials_come_from_secrets_and_may_come_later() {
    let served = Served::start();
    served.push("main", "hello");
    served.server.require("git", "canary-token");
    served.server.require("me", "canary-password");
    let sshd = Sshd::start_default().unwrap();
    let ssh_repository = TestRepository::create(sshd.folder(), "app.git").unwrap();
    push(&ssh_repository, "main", "hello");
    let pair = KeyPair::generate(&["-t", "ed25519"], "canary-passphrase").unwrap();
    sshd.authorize(&pair.public).unwrap();
    let system = System::start(&OFTEN).await;
    with_namespace(&system, async |namespace| {
        let url = served.url();
        let ssh_url = format!(
            "ssh://{}@127.0.0.1:{}{}/app.git",
            Sshd::user(),
            sshd.port(),
            sshd.folder().display()
        );
        let ssh = json!({ "sshPrivateKey": key("ssh", "id"), "password": key("ssh", "passphrase") });
        let basic = json!({ "userName": key("all", "username"), "password": key("all", "password") });
        let cases = [
            ("token", &url, "/spec/gitAuth", json!({ "accessToken": key("tokens", "mine") })),
            ("basic", &url, "/spec/gitAuth", json!({ "basicAuth": basic })),
            ("whole", &url, "/spec/gitAuthSecret", json!("all")),
            ("ssh", &ssh_url, "/spec/gitAuth", json!({ "sshAuth": ssh })),
        ];
        let trails = cases.clone().map(|(name, ..)| Trail::of(namespace, name));
        for (name, url, field, auth) in cases {
            let stack = stack(&system, name, url).set("/spec/branch", "main").set(field, auth);
            namespace.create_object(stack.build()).await.unwrap();
        }
        let missing = [
            "resolving gitAuth personal access token: unable to get secret {ns}/tokens: secrets \"tokens\" not found",
            "resolving gitAuth username: unable to get secret {ns}/all: secrets \"all\" not found",
            "secrets \"all\" not found",
            "resolving gitAuth SSH private key: unable to get secret {ns}/ssh: secrets \"ssh\" not found",
        ];
        for (trail, missing) in trails.iter().zip(missing) {
            let missing = missing.replace("{ns}", namespace.name());
            trail.until(&format!("Stalled SpecInvalid: {missing}")).await;
        }
        secret(namespace, "tokens", json!({ "mine": "canary-token" })).await;
        secret(namespace, "all", json!({ "username": "me", "password": "canary-password" })).await;
        let values = json!({ "id": pair.private, "passphrase": "canary-passphrase", "known_hosts": sshd.known_hosts() });
        secret(namespace, "ssh", values).await;
        for trail in &trails {
            trail.until("Ready").await;
            assert_eq!(greeting(trail).await, "hello");
            no_canary(&format!("{:?} {:?}", trail.stack().await.status, trail.events().await));
        }
        let git = git_of(namespace, "ssh").await;
        let hosts = json!({ "name": "ssh", "key": "known_hosts", "optional": true });
        assert_eq!(git["auth"]["knownHosts"], hosts);
        assert_eq!(git["auth"]["sshPrivateKey"], json!({ "name": "ssh", "key": "id" }));
        assert_eq!(git_of(namespace, "whole").await["auth"]["token"]["optional"], true);
        no_canary(&system.manager_log());
    })
    .await;
}

#[tokio::test]
async fn git_errors_are_reported_and_a_branch_may_come_later() {
    let served = Served::start();
    served.push("main", "hello");
    served.server.require("git", "right");
    let system = System::start(&OFTEN).await;
    with_namespace(&system, async |namespace| {
        let url = served.server.url_with("git", "right", "app.git");
        let shown = served.url();
        let later = Trail::of(namespace, "later");
        let named = stack(&system, "later", &url).set("/spec/branch", "mian");
        namespace.create_object(named.build()).await.unwrap();
        let denied = served.server.url_with("git", "canary", "app.git");
        for (name, url, branch, expected) in [
            (
                "denied",
                denied.as_str(),
                "main",
                format!("Stalled SourceUnavailable: listing: authentication required: {shown}"),
            ),
            (
                "nowhere",
                "hhtp://me:canary@git.test/a/b",
                "main",
                "Stalled SpecInvalid: invalid URL scheme: hhtp".to_owned(),
            ),
            (
                "plain",
                "http://me:canary@git.test/a/b",
                "main",
                "Stalled SpecInvalid: invalid URL scheme: http; use https or ssh".to_owned(),
            ),
            (
                "strange",
                &url,
                "no such..name",
                "Stalled SpecInvalid: \"no such..name\" is not a valid revision".to_owned(),
            ),
        ] {
            let trail = Trail::of(namespace, name);
            let stack = stack(&system, name, url).set("/spec/branch", branch);
            namespace.create_object(stack.build()).await.unwrap();
            for line in trail.until(&expected).await {
                no_canary(&line);
            }
        }
        let missing =
            "Stalled SourceUnavailable: no commits found for ref \"mian\"; did you mean \"main\"?";
        later.until(missing).await;
        served.push("mian", "late");
        later.until("Ready").await;
        assert_eq!(greeting(&later).await, "late");
        let updates = namespace
            .api::<Update>()
            .list(&ListParams::default())
            .await
            .unwrap();
        assert_eq!(updates.items.len(), 1, "nothing ran for the others");
        no_canary(&system.manager_log());
    })
    .await;
}

/// A Ready Stack stays so while its server is away, says since when, and goes on when it is back; a
/// manager that starts in between writes nothing.
#[tokio::test]
async fn git_server_outage_affects_no_other_stack() {
    let served = Served::start();
    served.push("main", "first");
    let mut system = System::start(&OFTEN).await;
    let namespace = system.namespace().await;
    let trail = Trail::of(&namespace, "demo");
    let demo = stack(&system, "demo", &served.url()).set("/spec/branch", "main");
    namespace.create_object(demo.build()).await.unwrap();
    trail.until("Ready").await;

    served
        .server
        .set_fault(Some(Fault::Status(503, Vec::new())));
    let seen = trail.until("Ready SourceUnavailable").await;
    let message = seen.last().unwrap();
    assert!(
        message.contains(
            "the stack was up to date when its source last responded; it has not responded since 20"
        ),
        "{message}"
    );
    assert!(message.contains("returned status 503"), "{message}");

    // Another manager does not know yet that the server is away: it keeps what was said.
    system.kill_manager();
    let mark = system.plane.audit_position().await.unwrap();
    served.server.set_fault(Some(Fault::Hang));
    drop(served.server.take_requests());
    system.start_manager();
    System::works(&namespace, "probe").await;
    eventually("the server to be asked again", async || {
        if served.server.take_requests().is_empty() {
            Err("not yet")
        } else {
            Ok(())
        }
    })
    .await
    .unwrap();
    let writes = system.requests_since(mark).await.writes();
    let writes = writes.only(|request| request.resource.starts_with("stacks.pulumi.com"));
    assert!(writes.is_empty(), "{}", writes.counts());

    served.server.set_fault(None);
    system.kill_manager();
    served.push("main", "second");
    system.start_manager();
    trail.until("Ready ProcessingCompleted").await;
    eventually("the new commit to be deployed", async || {
        let found = greeting(&trail).await;
        if found == "second" {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await
    .unwrap();
    drop(served.folder);
}

/// Servers that take a connection and never say a word: each look at their Stacks is short.
#[tokio::test]
async fn fifty_unresponsive_git_servers_do_not_delay_another_stack() {
    let silent: Vec<TcpListener> = (0..50)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let served = Served::start();
    served.push("main", "hello");
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        for (number, server) in silent.iter().enumerate() {
            let url = format!("http://{}/a/b", server.local_addr().unwrap());
            let stack = stack(&system, &format!("silent-{number}"), &url);
            let stack = stack.set("/spec/branch", "main").build();
            namespace.create_object(stack).await.unwrap();
        }
        let waiting = Trail::of(namespace, "silent-49");
        let expected =
            "Reconciling StackProcessing: waiting for the git server of http://127.0.0.1:";
        waiting.until(expected).await;
        let trail = Trail::of(namespace, "good");
        let good = stack(&system, "good", &served.url()).set("/spec/branch", "main");
        namespace.create_object(good.build()).await.unwrap();
        trail.until("Ready").await;
        let waits = waiting.stack().await.status.unwrap().last_update;
        assert!(waits.is_none(), "still silent");
    })
    .await;
}

/// More servers of one namespace than there are requests at once, for each of which a request lasts
/// a minute.
#[tokio::test]
async fn unresponsive_git_servers_do_not_delay_another_namespace() {
    let silent: Vec<TcpListener> = (0..300)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let served = Served::start();
    served.push("main", "hello");
    let system = System::start_watching(Watched::Namespaces(2), &[]).await;
    let (hostile, victim) = (system.namespace().await, system.namespace().await);
    for (number, server) in silent.iter().enumerate() {
        let url = format!("http://{}/a/b", server.local_addr().unwrap());
        let stack = stack(&system, &format!("silent-{number}"), &url);
        let stack = stack.set("/spec/branch", "main").build();
        hostile.create_object(stack).await.unwrap();
    }
    let waiting = Trail::of(&hostile, "silent-299");
    let expected = "Reconciling StackProcessing: waiting for the git server of http://127.0.0.1:";
    waiting.until(expected).await;
    let trail = Trail::of(&victim, "good");
    let good = stack(&system, "good", &served.url()).set("/spec/branch", "main");
    victim.create_object(good.build()).await.unwrap();
    trail.until("Ready").await;
    let waits = waiting.stack().await.status.unwrap().last_update;
    assert!(waits.is_none(), "still silent");
}

/// An interval that no clock can add up, on a repository that another namespace follows.
#[tokio::test]
async fn git_endless_interval_of_a_namespace_does_not_stop_another() {
    let served = Served::start();
    served.push("main", "first");
    let system = System::start_watching(Watched::Namespaces(2), &OFTEN).await;
    let (hostile, victim) = (system.namespace().await, system.namespace().await);
    let endless = stack(&system, "endless", &served.url())
        .set("/spec/branch", "main")
        .set("/spec/resyncFrequencySeconds", i64::MAX);
    hostile.create_object(endless.build()).await.unwrap();
    Trail::of(&hostile, "endless").until("Ready").await;
    let trail = Trail::of(&victim, "good");
    let good = stack(&system, "good", &served.url()).set("/spec/branch", "main");
    victim.create_object(good.build()).await.unwrap();
    trail.until("Ready").await;
    let second = served.push("main", "second");
    trail.until("Ready").await;
    assert_eq!(commit(&trail).await, second);
}

/// A requested run reads the repository now, and refreshes every Stack on the same poll.
#[tokio::test]
async fn reconcile_request_polls_the_git_server_at_once() {
    let served = Served::start();
    served.push("main", "first");
    let system = System::start(&[("PKO_GIT_POLL_INTERVAL", "1h")]).await;
    with_namespace(&system, async |namespace| {
        let names = ["one", "two", "three"];
        let trails = names.map(|name| Trail::of(namespace, name));
        for name in names {
            let stack = stack(&system, name, &served.url()).set("/spec/branch", "main");
            namespace.create_object(stack.build()).await.unwrap();
        }
        for trail in &trails {
            trail.until("Ready").await;
        }
        let second = served.push("main", "second");
        let request =
            json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "now" } } });
        patch_stack(namespace, "one", request).await;
        for trail in &trails {
            trail.until("Ready").await;
            assert_eq!(commit(trail).await, second);
        }
    })
    .await;
}

const WAITING: &str = "Reconciling StackProcessing: waiting for workspace readiness";
const PROCESSING: &str = "Reconciling StackProcessing: stack is being processed";
const READY: &str = "Ready ProcessingCompleted: the stack has been processed and is up to date";

/// What a user saw until the Stack was ready, without the moment in which a slow server had not
/// answered yet.
async fn until_ready(trail: &Trail) -> Vec<String> {
    let mut seen = trail.until("Ready ProcessingCompleted").await;
    seen.retain(|seen| {
        !seen.starts_with("Reconciling StackProcessing: waiting for the git server")
    });
    seen
}

/// Created, followed, suspended, resumed, only previewed, applied again, destroyed.
#[tokio::test]
async fn git_stack_lifecycle() {
    let served = Served::start();
    let first = served.push("main", "first");
    let system = System::start(&OFTEN).await;
    with_namespace(&system, async |namespace| {
        let trail = Trail::of(namespace, "demo");
        let demo = stack(&system, "demo", &served.url())
            .set("/spec/branch", "main")
            .destroy_on_finalize(true);
        namespace.create_object(demo.build()).await.unwrap();
        assert_eq!(until_ready(&trail).await, [WAITING, PROCESSING, READY]);
        assert_eq!(commit(&trail).await, first);

        let second = served.push("main", "second");
        assert_eq!(until_ready(&trail).await, [WAITING, PROCESSING, READY]);
        assert_eq!(commit(&trail).await, second);
        assert_eq!(greeting(&trail).await, "second");

        patch_stack(namespace, "demo", json!({ "spec": { "suspend": true } })).await;
        let seen = trail.until("Ready Suspended").await;
        assert_eq!(seen.len(), 1, "nothing else happened: {seen:?}");
        let third = served.push("main", "third");
        patch_stack(namespace, "demo", json!({ "spec": { "suspend": false } })).await;
        assert_eq!(until_ready(&trail).await, [WAITING, PROCESSING, READY]);
        assert_eq!(
            commit(&trail).await,
            third,
            "what came meanwhile is not lost"
        );

        patch_stack(namespace, "demo", json!({ "spec": { "preview": true } })).await;
        let executed = system.executed("app", "demo");
        assert_eq!(until_ready(&trail).await, [PROCESSING, READY]);
        assert_eq!(system.executed("app", "demo"), executed, "it only looked");
        patch_stack(namespace, "demo", json!({ "spec": { "preview": false } })).await;
        assert_eq!(until_ready(&trail).await, [PROCESSING, READY]);
        assert_eq!(system.executed("app", "demo"), executed + 1);

        let stacks = namespace.api::<Stack>();
        let parameters = kube::api::DeleteParams::default();
        stacks.delete("demo", &parameters).await.unwrap();
        trail.until_gone().await;
        assert_eq!(
            system.executed("app", "demo"),
            executed + 2,
            "it was destroyed"
        );
        system.no_workspace_is_left().await;
    })
    .await;
}
