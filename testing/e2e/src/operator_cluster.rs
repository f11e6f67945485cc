//! The cluster of this process, with the operator installed.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, Client, api::ListParams};
use pko_testkit::{Cluster, cluster::ClusterOptions, eventually_within, skip};
use tokio::sync::OnceCell;

use crate::cli::Cli;

pub(crate) const OPERATOR_NAMESPACE: &str = "pulumi-kubernetes-operator";
pub(crate) const DEPLOYMENT: &str = "controller-manager";
pub(crate) const MANAGERS: &str = "control-plane=controller-manager";
/// The container of the manager.
pub(crate) const MANAGER: &str = "manager";

/// The images that `cargo xtask test e2e` makes: file, and full name.
const IMAGES: [(&str, &str); 6] = [
    ("operator", OPERATOR_IMAGE),
    ("workspace", WORKSPACE_IMAGE),
    ("operator", NEXT_OPERATOR_IMAGE),
    ("workspace-old", OLD_WORKSPACE_IMAGE),
    ("workspace-cli", CLI_WORKSPACE_IMAGE),
    ("shell", SHELL_IMAGE),
];
/// The operator of the install file.
const OPERATOR_IMAGE: &str = "docker.io/pulumi/pulumi-kubernetes-operator:v0.1.0";
/// The same under the tag of a version to come.
pub(crate) const NEXT_OPERATOR_IMAGE: &str = "docker.io/pulumi/pulumi-kubernetes-operator:v0.1.1";
pub(crate) const WORKSPACE_IMAGE: &str =
    "docker.io/pulumi/pulumi-kubernetes-operator-workspace:v0.1.0";
/// The same with a CLI that reports an old version.
pub(crate) const OLD_WORKSPACE_IMAGE: &str = "docker.io/local/workspace:v3.197.0";
/// The same with Pulumi's own CLI.
const CLI_WORKSPACE_IMAGE: &str = "docker.io/local/workspace:cli";
/// A shell, and nothing else.
pub(crate) const SHELL_IMAGE: &str = "docker.io/local/shell:1";

/// A cluster by this name is used, and left up, to try things again and again.
const KEPT: &str = "PKO_E2E_CLUSTER";

/// How often it is tried to load an image.
const LOADS: usize = 6;

/// Generous, for a machine that is busy.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

pub(crate) struct OperatorCluster {
    pub(crate) cluster: Cluster,
}

static SYSTEM: OnceCell<Result<OperatorCluster, String>> = OnceCell::const_new();

impl OperatorCluster {
    /// The one of this process; where there can be none, the test is skipped.
    pub(crate) async fn get() -> Option<&'static Self> {
        let operator = SYSTEM.get_or_init(Self::start).await;
        operator.as_ref().map_err(skip).ok()
    }

    /// An error explains why this machine can't run a cluster.
    async fn start() -> Result<Self, String> {
        if let Some(obstacle) = Cluster::obstacle() {
            return Err(obstacle);
        }
        let Some(images) = env::var_os("PKO_IMAGES") else {
            return Err("PKO_IMAGES names no folder of images: run `cargo xtask test e2e`".into());
        };
        let cluster = Cluster::up(options()).await.unwrap();
        load_images(&cluster, Path::new(&images));
        let operator = Self { cluster };
        operator.install().await;
        Ok(operator)
    }

    /// Installs as documented.
    async fn install(&self) {
        let file = install_file();
        self.kubectl(&["apply", "-f", file.to_str().unwrap()]);
        self.wait_for_rollout().await;
    }

    /// Waits until every manager is of the newest kind and ready.
    pub(crate) async fn wait_for_rollout(&self) {
        let deployments: Api<Deployment> = Api::namespaced(self.client().await, OPERATOR_NAMESPACE);
        let rolled_out = eventually_within(PATIENCE, "the operator to be ready", async || {
            // The API server may be restarting.
            let found = deployments.get(DEPLOYMENT).await;
            let found = found.map_err(|error| error.to_string())?;
            let wanted = found.spec.as_ref().and_then(|spec| spec.replicas);
            let generation = found.metadata.generation;
            let status = found.status.unwrap_or_default();
            let done = status.observed_generation == generation
                && [
                    status.replicas,
                    status.updated_replicas,
                    status.available_replicas,
                ]
                .iter()
                .all(|count| *count == wanted);
            if done {
                Ok(())
            } else {
                Err(format!("{status:?}"))
            }
        });
        if let Err(error) = rolled_out.await {
            panic!("{error}\n{}", self.report());
        }
    }

    /// A client that may do everything.
    pub(crate) async fn client(&self) -> Client {
        self.cluster.client().await.unwrap()
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        self.cluster.run_kubectl(arguments).unwrap()
    }

    /// The pods of the operator that are not on their way out.
    pub(crate) async fn managers(&self) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client().await, OPERATOR_NAMESPACE);
        let found = pods.list(&ListParams::default().labels(MANAGERS)).await;
        let mut found = found.unwrap().items;
        found.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        found
    }

    /// Diagnostics for a failure: pods, warnings, and the end of the operator's log.
    pub(crate) fn report(&self) -> String {
        let ask = |arguments: &[&str]| {
            let said = self.cluster.run_kubectl(arguments);
            said.unwrap_or_else(|error| format!("{error:?}\n"))
        };
        let pods = ask(&["get", "pods", "-A", "-o", "wide"]);
        let events = ask(&["get", "events", "-A", "--field-selector", "type=Warning"]);
        let log = ask(&[
            "logs",
            "-n",
            OPERATOR_NAMESPACE,
            "-l",
            MANAGERS,
            "--prefix",
            "--tail",
            "100",
        ]);
        format!("# pods\n{pods}# warnings\n{events}# the operator's log\n{log}")
    }
}

fn options() -> ClusterOptions {
    let kept = env::var(KEPT).ok();
    ClusterOptions {
        name: kept.clone().unwrap_or_else(|| "e2e".to_owned()),
        keep: kept.is_some(),
        progress: Box::new(|line| eprintln!("{line}")),
    }
}

fn load_images(cluster: &Cluster, folder: &Path) {
    let architecture = match env::consts::ARCH {
        "aarch64" => "arm64",
        _ => "amd64",
    };
    let archive = |file: &str| folder.join(format!("{file}-{architecture}.tar"));
    for (file, reference) in IMAGES {
        load(cluster, &archive(file), reference);
    }
}

/// Retries, because containerd's garbage collector may remove an image during its import.
fn load(cluster: &Cluster, archive: &Path, reference: &str) {
    let mut loaded = cluster.load_image(archive, reference);
    for _ in 1..LOADS {
        if loaded.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_secs(1));
        loaded = cluster.load_image(archive, reference);
    }
    loaded.unwrap();
}

/// The workspace image of this test.
pub(crate) fn workspace_image() -> &'static str {
    match Cli::of_this_test() {
        Cli::Engine => WORKSPACE_IMAGE,
        Cli::Pulumi => CLI_WORKSPACE_IMAGE,
    }
}

/// The file that users apply.
pub(crate) fn install_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/quickstart/install.yaml")
}
