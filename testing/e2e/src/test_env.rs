//! The environment of a test: a namespace that enforces restricted Pod Security, with a state
//! volume and a passphrase.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
};
use pko_testkit::{TestNamespace, eventually_within, run_in};
use serde_json::{Value, json};

use crate::{
    operator_cluster::{OperatorCluster, PATIENCE},
    rbac, scheduling,
};

/// The Pod Security labels of a test's namespace.
const LABELS: [(&str, &str); 2] = [
    ("pod-security.kubernetes.io/enforce", "restricted"),
    ("pod-security.kubernetes.io/enforce-version", "latest"),
];
/// Whose volume it is: volumes are in no namespace.
const OWNER: &str = "e2e/namespace";
/// The claim of the volume that keeps state.
pub(crate) const STATE: &str = "state";
/// The Secret with the passphrase, and its key.
pub(crate) const CREDENTIALS: (&str, &str) = ("credentials", "passphrase");

pub(crate) struct TestEnv<'a> {
    pub(crate) operator: &'static OperatorCluster,
    pub(crate) namespace: &'a TestNamespace,
}

/// Runs a test beside others.
pub(crate) async fn run_concurrently(test: impl AsyncFnOnce(&TestEnv<'_>)) {
    let _waiting = scheduling::ConcurrentTest::begin();
    if let Some(operator) = OperatorCluster::get().await {
        let _turn = scheduling::run_concurrently().await;
        Box::pin(run(operator, test)).await;
    }
}

/// Runs a test while no other does, as it disturbs all others.
pub(crate) async fn run_exclusively(test: impl AsyncFnOnce(&TestEnv<'_>)) {
    if let Some(operator) = OperatorCluster::get().await {
        let _turn = scheduling::run_exclusively().await;
        Box::pin(run(operator, test)).await;
    }
}

async fn run(operator: &'static OperatorCluster, test: impl AsyncFnOnce(&TestEnv<'_>)) {
    let client = operator.client().await;
    // A test before this one may have left the API server on its way up
    let made = eventually_within(PATIENCE, "a namespace", async || {
        TestNamespace::create_labelled(client.clone(), &LABELS).await
    });
    let namespace = made.await.unwrap();
    let name = namespace.name().to_owned();
    run_in(namespace, async |namespace| {
        let _reporter = Reporter(operator);
        let env = TestEnv {
            operator,
            namespace,
        };
        env.set_up().await;
        test(&env).await;
        assert_eq!(rbac::denied_requests(operator), [""; 0], "denied requests");
    })
    .await;
    let volumes: Api<PersistentVolume> = Api::all(client);
    let its_own = ListParams::default().labels(&format!("{OWNER}={name}"));
    let _ = volumes
        .delete_collection(&DeleteParams::default(), &its_own)
        .await;
}

/// Prints diagnostics when a test has failed.
struct Reporter(&'static OperatorCluster);

impl Drop for Reporter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0.report());
        }
    }
}

impl TestEnv<'_> {
    pub(crate) fn name(&self) -> &str {
        self.namespace.name()
    }

    /// A client that may do everything.
    pub(crate) fn client(&self) -> Client {
        self.namespace.client()
    }

    /// The folder of this machine that is the test's volume.
    pub(crate) fn state_folder(&self) -> PathBuf {
        let volumes = self.operator.cluster.folder().join("volumes");
        volumes.join(self.name())
    }

    async fn set_up(&self) {
        let folder = self.state_folder();
        fs::create_dir_all(&folder).unwrap();
        // Writable for the workspace's user
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        self.claim(STATE, &folder).await;
        let (secret, key) = CREDENTIALS;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": secret },
            "stringData": { key: "correct-horse" },
        });
        self.namespace.create_object(secret).await.unwrap();
    }

    /// Makes a folder of this machine a volume for the claim of this name, as a provisioner does.
    /// The kubelet applies a pod's `fsGroup` to such a volume.
    pub(crate) async fn provision(&self, claim: &str, folder: &Path) {
        let on_this_node = json!({ "key": "kubernetes.io/hostname", "operator": "Exists" });
        let source = json!({
            "local": { "path": folder },
            "nodeAffinity": { "required": {
                "nodeSelectorTerms": [{ "matchExpressions": [on_this_node] }],
            } },
        });
        self.create_volume(claim, source).await;
    }

    /// Makes a folder of this machine a volume, under the name of its claim.
    pub(crate) async fn claim(&self, claim: &str, folder: &Path) {
        let source = json!({ "hostPath": { "path": folder, "type": "Directory" } });
        let name = self.create_volume(claim, source).await;
        let wanted = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": claim },
            "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": name,
                "resources": { "requests": { "storage": "1Gi" } },
            },
        });
        self.namespace.create_object(wanted).await.unwrap();
        // Or the first pod waits for it, and then for the scheduler
        self.wait_until("the volume to be bound", async || {
            let claim: PersistentVolumeClaim = self.get(claim).await?;
            let phase = claim.status.and_then(|status| status.phase);
            let phase = phase.unwrap_or_default();
            if phase == "Bound" { Ok(()) } else { Err(phase) }
        })
        .await;
    }

    /// Creates a volume that is reserved for a claim of this namespace; returns its name.
    async fn create_volume(&self, claim: &str, source: Value) -> String {
        let name = format!("{}-{claim}", self.name());
        let mut volume = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": { "name": name, "labels": { OWNER: self.name() } },
            "spec": {
                "capacity": { "storage": "1Gi" }, "storageClassName": "",
                "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": { "namespace": self.name(), "name": claim },
            },
        });
        let spec = volume["spec"].as_object_mut().unwrap();
        spec.extend(source.as_object().unwrap().clone());
        let volumes: Api<PersistentVolume> = Api::all(self.client());
        let volume = serde_json::from_value(volume).unwrap();
        volumes
            .create(&PostParams::default(), &volume)
            .await
            .unwrap();
        name
    }
}
