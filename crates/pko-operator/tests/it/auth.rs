//! A manager and its agents know each other, also after a restart, a lost key and an upgrade.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::{ffi::OsStringExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    process::Stdio,
};

use kube::api::{Patch, PatchParams};
use pko_api::Stack;
use pko_auth::token::{Claims, SigningKey};
use pko_proto::run::{ListRunsRequest, run_service_client::RunServiceClient};
use pko_testkit::{ProgramBuilder, StackBuilder, TestNamespace, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    net::UnixStream,
    process::{Child, Command},
};
use tonic::{Code, transport::Endpoint};

use crate::{
    events::Trail,
    harness::{System, Watched},
};

async fn create_stack(system: &System, namespace: &TestNamespace) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "credentials" },
        "stringData": { "passphrase": "correct-horse" },
    });
    namespace.create_object(secret).await.unwrap();
    let program = ProgramBuilder::new("demo")
        .output("greeting", "hello")
        .build();
    namespace.create_object(program).await.unwrap();
    let stack = StackBuilder::new("demo")
        .stack("dev")
        .backend(&system.backend())
        .program("demo")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .build();
    namespace.create_object(stack).await.unwrap();
}

/// Asks for a run and waits for its success: the manager and the agent understand each other.
async fn run(namespace: &TestNamespace, trail: &Trail, request: &str) {
    let annotations = json!({ "pulumi.com/reconciliation-request": request });
    let patch = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    let stacks = namespace.api::<Stack>();
    let patched = stacks.patch("demo", &PatchParams::default(), &patch).await;
    patched.unwrap();
    trail.until("Ready").await;
    let status = trail.stack().await.status.unwrap();
    assert_eq!(status.observed_reconcile_request.as_deref(), Some(request));
}

/// The one agent that runs.
fn agent(system: &System) -> u32 {
    let agents = system.agents();
    assert_eq!(agents.len(), 1, "{agents:?}");
    agents[0]
}

fn words(file: &str) -> Vec<OsString> {
    let bytes = fs::read(file).unwrap();
    let words = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec);
    words
        .map(OsString::from_vec)
        .filter(|word| !word.is_empty())
        .collect()
}

fn socket(agent: u32) -> String {
    let words = words(&format!("/proc/{agent}/cmdline"));
    let socket = words.iter().find_map(|word| {
        let word = word.to_str()?;
        word.starts_with("unix:").then(|| word.to_owned())
    });
    socket.unwrap()
}

/// What an agent answers to who has no token.
async fn answer(agent: u32) -> Result<(), Code> {
    let channel = Endpoint::from_shared(socket(agent)).unwrap();
    let mut runs = RunServiceClient::new(channel.connect().await.unwrap());
    let answer = runs.list_runs(ListRunsRequest {}).await;
    answer.map(drop).map_err(|status| status.code())
}

fn record(system: &System, namespace: &TestNamespace) -> PathBuf {
    let folder = system.workspaces().join(namespace.name());
    folder.join("demo/record.json")
}

/// Replaces an agent by one that differs only in the callers it admits, and in its record of them.
async fn replace(agent: u32, record: &Path, flags: &[&str], auth: Option<Value>) -> Child {
    let words = words(&format!("/proc/{agent}/cmdline"));
    let variables = self::words(&format!("/proc/{agent}/environ"));
    let folder = fs::read_link(format!("/proc/{agent}/cwd")).unwrap();
    let socket = socket(agent);
    kill(agent, &socket).await;
    let end = words.iter().position(|word| word == "--auth-mode");
    let (program, arguments) = words[..end.unwrap_or(words.len())].split_first().unwrap();
    let variables = variables.iter().filter_map(|variable| {
        let (name, value) = variable.to_str()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    let child = Command::new(program)
        .args(arguments)
        .args(flags)
        .env_clear()
        .envs(variables)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut text: Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    let fields = text.as_object_mut().unwrap();
    fields.insert("process".to_owned(), json!(child.id()));
    fields.remove("auth");
    fields.extend(auth.map(|auth| ("auth".to_owned(), auth)));
    fs::write(record, text.to_string()).unwrap();
    let listening = eventually("the agent to listen", async || connect(&socket).await);
    listening.await.unwrap();
    child
}

async fn connect(socket: &str) -> io::Result<UnixStream> {
    UnixStream::connect(socket.trim_start_matches("unix:")).await
}

/// A process that was killed has no command line any more a moment before its socket is closed.
async fn kill(agent: u32, socket: &str) {
    let process = Pid::from_raw(i32::try_from(agent).unwrap()).unwrap();
    kill_process(process, Signal::KILL).unwrap();
    let gone = eventually("the agent to be gone", async || {
        let left = fs::read(format!("/proc/{agent}/cmdline")).unwrap_or_default();
        let gone = left.is_empty() && connect(socket).await.is_err();
        gone.then_some(()).ok_or("it runs")
    });
    gone.await.unwrap();
}

#[tokio::test]
async fn agent_accepts_the_manager_after_restart_and_upgrade() {
    // Another key also gives Programs other addresses, and so the Stack another workspace.
    let mut system = System::start(&[("PKO_PROGRAM_FS_SEALED", "false")]).await;
    let namespace = system.namespace().await;
    let trail = Trail::of(&namespace, "demo");
    create_stack(&system, &namespace).await;
    trail.until("Ready").await;
    let first = agent(&system);
    assert_eq!(answer(first).await, Err(Code::Unauthenticated));
    let key = system.workspaces().join(".manager-key");
    let mode = fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // The next manager has the same key.
    system.kill_manager();
    system.start_manager();
    run(&namespace, &trail, "same key").await;
    assert_eq!(agent(&system), first, "the agent was adopted");

    // A manager with another key can't talk to that agent, so it starts another one.
    system.kill_manager();
    fs::remove_file(&key).unwrap();
    system.start_manager();
    run(&namespace, &trail, "another key").await;
    let second = agent(&system);
    assert_ne!(second, first, "the agent was replaced");
    assert_eq!(answer(second).await, Err(Code::Unauthenticated));

    // An agent from before there were keys.
    system.kill_manager();
    let third = replace(second, &record(&system, &namespace), &[], None).await;
    system.start_manager();
    run(&namespace, &trail, "no key").await;
    assert_eq!(Some(agent(&system)), third.id(), "the agent was adopted");
    assert_eq!(answer(agent(&system)).await, Ok(()));
}

/// What the agent of a namespace answers to a token for the workspace of a namespace.
async fn answer_to(
    system: &System,
    namespace: &TestNamespace,
    token_for: &TestNamespace,
) -> Result<(), Code> {
    let record: Value =
        serde_json::from_slice(&fs::read(record(system, namespace)).unwrap()).unwrap();
    let agent = record["process"]
        .as_u64()
        .and_then(|id| u32::try_from(id).ok());
    let key = fs::read_to_string(system.workspaces().join(".manager-key")).unwrap();
    let audience = pko_auth::token::audience(token_for.name(), "demo");
    let claims = Claims::new(&audience, jiff::Timestamp::now());
    let token = SigningKey::from_pem(&key).unwrap().sign(&claims).unwrap();
    let mut request = tonic::Request::new(ListRunsRequest {});
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", bearer);
    let channel = Endpoint::from_shared(socket(agent.unwrap())).unwrap();
    let mut runs = RunServiceClient::new(channel.connect().await.unwrap());
    let answer = runs.list_runs(request).await;
    answer.map(drop).map_err(|status| status.code())
}

#[tokio::test]
async fn token_of_one_workspace_is_rejected_at_another() {
    let system = System::start_watching(Watched::Namespaces(2), &[]).await;
    let one = system.namespace().await;
    let other = system.namespace().await;
    for namespace in [&one, &other] {
        let trail = Trail::of(namespace, "demo");
        create_stack(&system, namespace).await;
        trail.until("Ready").await;
    }
    for (own, others) in [(&one, &other), (&other, &one)] {
        assert_eq!(answer_to(&system, own, own).await, Ok(()));
        let refused = answer_to(&system, own, others).await;
        assert_eq!(refused, Err(Code::Unauthenticated));
    }
}

#[tokio::test]
async fn agent_with_kubernetes_auth_gets_a_service_account_token() {
    let account = [
        ("POD_NAMESPACE", "default"),
        ("POD_SA_NAME", "controller-manager"),
    ];
    let mut system = System::start(&account).await;
    let namespace = system.namespace().await;
    let trail = Trail::of(&namespace, "demo");
    create_stack(&system, &namespace).await;
    trail.until("Ready").await;
    system.kill_manager();
    let kubeconfig = system.plane.kubeconfig();
    let audience = pko_auth::token::audience(namespace.name(), "demo");
    let flags = [
        "--auth-mode",
        "kube",
        "--kube-audience",
        &audience,
        "--kube-workspace-namespace",
        namespace.name(),
        "--kube-workspace-name",
        "demo",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ];
    let record = record(&system, &namespace);
    let replaced = replace(agent(&system), &record, &flags, Some(json!("kube"))).await;
    system.start_manager();
    run(&namespace, &trail, "by the API server").await;
    assert_eq!(Some(agent(&system)), replaced.id(), "the agent was adopted");
    let refused = answer(agent(&system)).await;
    assert_eq!(refused, Err(Code::Unauthenticated));
}
