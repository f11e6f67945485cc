//! Secrets are where they belong: values that give themselves away are looked for in every log, event and object of the
//! cluster but Secrets, and among the arguments of every process on the node, from beginning to end.

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
    forge::Forge,
    place::{Place, alone},
    stacks::stack,
    system::{OPERATOR_NAMESPACE, System},
};

/// The values, one for each way in which a Stack gets to know a secret.
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
struct Watch {
    seen: Arc<Mutex<BTreeSet<String>>>,
    ends: Arc<AtomicBool>,
    watching: JoinHandle<()>,
}

impl Watch {
    fn begin(system: &'static System) -> Self {
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let ends = Arc::new(AtomicBool::new(false));
        let (notes, end) = (Arc::clone(&seen), Arc::clone(&ends));
        let watching = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let processes = system.cluster.node_processes().into_iter();
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

/// Fails if a secret is in a text, as it is or in base64.
fn is_clean(what: &str, text: &str) {
    for (name, value) in SECRETS {
        let encoded = BASE64_STANDARD.encode(value);
        // The first and the last letters depend on what is beside it
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

async fn create(place: &Place<'_>) -> Forge {
    let data: serde_json::Map<String, serde_json::Value> = SECRETS
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).into()))
        .collect();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "canary" }, "stringData": data,
    });
    place.create(secret).await;
    let forge = Forge::start(
        place.system,
        &[TestFile::plain("Pulumi.yaml", PROJECT)],
        SECRETS[1].1,
    );
    place.create(forge.secret("git", SECRETS[1].1)).await;
    place.create(private_stack(&forge.url()).build()).await;
    forge
}

/// What every container of a namespace has said.
async fn logs(place: &Place<'_>, namespace: &str) -> String {
    let pods: kube::Api<Pod> = kube::Api::namespaced(place.client(), namespace);
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
            let log = place
                .system
                .cluster
                .pod_logs(namespace, &name, Some(&container.name), false);
            all += &log.await.unwrap_or_default();
        }
    }
    all
}

/// Whatever the API server tells of anything but Secrets.
fn objects(place: &Place<'_>) -> String {
    let kubectl = |arguments: &[&str]| place.system.kubectl(arguments);
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

async fn nothing_is_told(place: &Place<'_>, moment: &str) {
    is_clean(
        &format!("a workspace's log {moment}"),
        &logs(place, place.name()).await,
    );
    is_clean(
        &format!("the operator's log {moment}"),
        &logs(place, OPERATOR_NAMESPACE).await,
    );
    is_clean(&format!("an object {moment}"), &objects(place));
}

#[tokio::test]
async fn no_secret_is_in_any_log_event_object_or_command_line() {
    alone(async |place| {
        let watch = Watch::begin(place.system);
        let forge = create(place).await;
        let stack = place.ready("demo").await;
        let outputs = stack.status.unwrap().outputs.unwrap();
        assert_eq!(outputs["hidden"], "[secret]");
        assert_eq!(outputs["kept"], "[secret]");
        nothing_is_told(place, "of a good run").await;

        // Failures are what tells most
        drop(forge);
        let broken = ProgramBuilder::new("unused").output("size", "${nothing}");
        place.create(broken.build()).await;
        let broken = json!({ "spec": { "programRef": { "name": "unused" }, "projectRepo": null, "branch": null, "gitAuth": null } });
        place.patch::<pko_api::Stack>("demo", broken).await;
        place.stack_is("demo", "Reconciling", "RetryingAfterFailure", "nothing").await;
        nothing_is_told(place, "of a bad run").await;

        place.delete("demo", &DeleteParams::default()).await;
        nothing_is_told(place, "after a destroy").await;
        let audit = std::fs::read_to_string(place.system.cluster.audit_log()).unwrap();
        is_clean("the audit log", &audit);
        is_clean("a command line", &watch.end());
    })
    .await;
}
