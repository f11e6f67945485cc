//! Secrets stay secret: recognizable values must not appear in any log, event, object other than a
//! Secret, or argument of a process on the node.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams};
use pko_testkit::{ProgramBuilder, StackBuilder, git_server::TestFile};
use serde_json::json;

use crate::{
    git_host::GitHost,
    operator_cluster::{OPERATOR_NAMESPACE, OperatorCluster},
    stacks::stack,
    test_env::{TestEnv, run_exclusively},
};

/// One value for each way in which a Stack receives a secret.
const SECRETS: [(&str, &str); 5] = [
    ("passphrase", "canary-passphrase-7c1e"),
    ("password", "canary-key-passphrase-51fa"),
    ("setting", "canary-config-90bd"),
    ("variable", "canary-variable-2e44"),
    ("plain", "canary-output-d03b"),
];

const PROJECT: &str = "\
name: app
runtime: yaml
config:
  setting: { type: string, secret: true }
resources:
  kept: { type: 'pulumi:index:Stash', properties: { input: '${setting}' } }
outputs:
  kept: ${kept.output}
  hidden:
    fn::secret: canary-output-d03b
";

/// The arguments of all processes that there were.
struct ProcessRecorder {
    seen: Arc<Mutex<BTreeSet<String>>>,
    ends: Arc<AtomicBool>,
    watching: JoinHandle<()>,
}

impl ProcessRecorder {
    fn begin(operator: &'static OperatorCluster) -> Self {
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let ends = Arc::new(AtomicBool::new(false));
        let (notes, end) = (Arc::clone(&seen), Arc::clone(&ends));
        let watching = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let processes = operator.cluster.node_processes().into_iter();
                let lines = processes.map(|process| process.arguments.join(" "));
                notes.lock().unwrap().extend(lines);
                thread::sleep(Duration::from_millis(5));
            }
        });
        Self {
            seen,
            ends,
            watching,
        }
    }

    fn end(self) -> String {
        self.ends.store(true, Ordering::Relaxed);
        self.watching.join().unwrap();
        let seen = self.seen.lock().unwrap();
        seen.iter()
            .fold(String::new(), |all, line| all + line + "\n")
    }
}

/// Fails if a text contains a secret, in plain or in base64.
fn assert_no_secrets(what: &str, text: &str) {
    for (name, value) in SECRETS {
        let encoded = BASE64_STANDARD.encode(value);
        // The first and last characters depend on the surrounding text
        let inside = &encoded[2..encoded.len() - 4];
        let line = text
            .lines()
            .find(|line| line.contains(value) || line.contains(inside));
        assert_eq!(line, None, "the {name} is in {what}");
    }
}

fn private_stack(url: &str) -> StackBuilder {
    let secret =
        |key: &str| json!({ "type": "Secret", "secret": { "name": "canary", "key": key } });
    let of_git = |key: &str| json!({ "type": "Secret", "secret": { "name": "git", "key": key } });
    let ssh = json!({ "sshPrivateKey": of_git("sshPrivateKey"), "password": of_git("password") });
    stack("demo")
        .git(url, "main")
        .set("/spec/gitAuth", json!({ "sshAuth": ssh }))
        .set(
            "/spec/envRefs/PULUMI_CONFIG_PASSPHRASE",
            secret("passphrase"),
        )
        .set("/spec/envRefs/TOKEN", secret("variable"))
        .set("/spec/secretsRef/setting", secret("setting"))
        .destroy_on_finalize(true)
}

async fn create(env: &TestEnv<'_>) -> GitHost {
    let data: serde_json::Map<String, serde_json::Value> = SECRETS
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).into()))
        .collect();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "canary" }, "stringData": data,
    });
    env.create(secret).await;
    let git_host = GitHost::start(
        env.operator,
        &[TestFile::plain("Pulumi.yaml", PROJECT)],
        SECRETS[1].1,
    );
    env.create(git_host.secret("git", SECRETS[1].1)).await;
    env.create(private_stack(&git_host.url()).build()).await;
    git_host
}

/// The logs of all containers of a namespace.
async fn logs(env: &TestEnv<'_>, namespace: &str) -> String {
    let pods: kube::Api<Pod> = kube::Api::namespaced(env.client(), namespace);
    let mut all = String::new();
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let name = pod.metadata.name.unwrap_or_default();
        let spec = pod.spec.unwrap();
        let containers = spec
            .init_containers
            .into_iter()
            .flatten()
            .chain(spec.containers);
        for container in containers {
            let log = env
                .operator
                .cluster
                .pod_logs(namespace, &name, Some(&container.name), false);
            all += &log.await.unwrap_or_default();
        }
    }
    all
}

/// All objects but Secrets, as YAML.
fn objects(env: &TestEnv<'_>) -> String {
    let kubectl = |arguments: &[&str]| env.operator.kubectl(arguments);
    let kinds = kubectl(&["api-resources", "--verbs=list", "-o", "name"]);
    let kinds: Vec<&str> = kinds.lines().filter(|kind| *kind != "secrets").collect();
    kubectl(&[
        "get",
        &kinds.join(","),
        "-A",
        "-o",
        "yaml",
        "--ignore-not-found",
    ])
}

async fn assert_nothing_leaked(env: &TestEnv<'_>, moment: &str) {
    assert_no_secrets(
        &format!("a workspace's log {moment}"),
        &logs(env, env.name()).await,
    );
    assert_no_secrets(
        &format!("the operator's log {moment}"),
        &logs(env, OPERATOR_NAMESPACE).await,
    );
    assert_no_secrets(&format!("an object {moment}"), &objects(env));
}

#[tokio::test]
async fn secrets_never_appear_in_logs_objects_or_arguments() {
    run_exclusively(async |env| {
        let watch = ProcessRecorder::begin(env.operator);
        let git_host = create(env).await;
        let stack = env.wait_for_ready("demo").await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        assert_eq!(outputs["hidden"], "[secret]");
        assert_eq!(outputs["kept"], "[secret]");
        assert_nothing_leaked(env, "of a good run").await;

        // Error messages leak most easily
        drop(git_host);
        let broken = ProgramBuilder::new("unused").output("size", "${nothing}");
        env.create(broken.build()).await;
        let broken = json!({ "spec": { "programRef": { "name": "unused" }, "projectRepo": null, "branch": null, "gitAuth": null } });
        env.patch::<pko_api::Stack>("demo", broken).await;
        env.wait_for_stack_condition("demo", "Reconciling", "RetryingAfterFailure", "nothing").await;
        assert_nothing_leaked(env, "of a bad run").await;

        env.delete("demo", &DeleteParams::default()).await;
        assert_nothing_leaked(env, "after a destroy").await;
        let audit = std::fs::read_to_string(env.operator.cluster.audit_log()).unwrap();
        assert_no_secrets("the audit log", &audit);
        assert_no_secrets("a command line", &watch.end());
    })
    .await;
}
