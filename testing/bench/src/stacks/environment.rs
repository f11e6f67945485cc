//! A control plane with a manager and the agents of its workspaces.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use k8s_openapi::api::core::v1::Secret;
use pko_testkit::{
    ControlPlane, FakeNode, Script, StandIn, TestNamespace,
    audit::{AuditPosition, AuditedRequests},
    checkout::{cargo, target_folder},
    end_processes_of, eventually_within, node, processes_of,
    progress::Step,
    readiness::check_ready,
};
use serde_json::json;
use tempfile::TempDir;

use crate::{
    agent, fixtures,
    manager::{self, TIMEOUT, USER},
    process::{ServerProcess, free_address},
};

/// The Program of all Stacks that have one.
pub(super) const PROGRAM: &str = "demo";
/// The Secret of all Stacks.
pub(super) const CREDENTIALS: &str = "credentials";

pub(super) struct BenchPrograms {
    manager: PathBuf,
    agent: PathBuf,
    stand_in: PathBuf,
}

impl BenchPrograms {
    /// Finds the programs in a folder, or builds ours in release mode.
    pub(super) fn find(folder: Option<&Path>) -> anyhow::Result<Self> {
        let Some(folder) = folder else {
            return Ok(Self {
                manager: manager::build()?,
                agent: build_agent()?,
                stand_in: agent::build_stand_in()?,
            });
        };
        let program = |name: &str| {
            let program = folder.join(name).canonicalize();
            program.with_context(|| format!("failed to find {name} in {}", folder.display()))
        };
        Ok(Self {
            manager: program("manager")?,
            agent: program("agent")?,
            stand_in: program("pulumi-stand-in")?,
        })
    }
}

fn build_agent() -> anyhow::Result<PathBuf> {
    let arguments = ["build", "--release", "--quiet", "--package", "pko-agent"];
    if !cargo().args(arguments).status()?.success() {
        bail!("the agent does not build");
    }
    Ok(target_folder()?.join("release/agent"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runtime {
    Pods,
    Processes,
}

/// A control plane with a manager. Dropping it ends all processes.
pub(super) struct BenchEnvironment {
    manager: Option<ServerProcess>,
    _node: Option<FakeNode>,
    pub(super) plane: ControlPlane,
    pub(super) namespace: TestNamespace,
    programs: SocketAddr,
    kubeconfig: PathBuf,
    executables: [PathBuf; 3],
    runtime: Runtime,
    folder: TempDir,
}

impl BenchEnvironment {
    /// Starts everything and creates a Program.
    pub(super) async fn start(programs: &BenchPrograms, runtime: Runtime) -> anyhow::Result<Self> {
        let step = Step::begin("starting a control plane and a manager");
        let plane = ControlPlane::builder().controller_manager(true);
        let plane = plane.start().await?;
        plane.install_crds(&pko_api::crd::all()).await?;
        let settings = node::NodeSettings {
            agent: programs.agent.clone(),
            environment: vec![(
                "PKO_PULUMI".to_owned(),
                programs.stand_in.display().to_string(),
            )],
            namespace: None,
        };
        let node = (runtime == Runtime::Pods).then(|| FakeNode::start(&plane, settings));
        let mut started = Self {
            manager: None,
            _node: node.transpose()?,
            namespace: TestNamespace::create(&plane).await?,
            programs: free_address()?,
            kubeconfig: plane.kubeconfig_as(USER, &["system:masters"])?,
            executables: [
                programs.manager.clone(),
                programs.agent.clone(),
                programs.stand_in.clone(),
            ],
            runtime,
            folder: tempfile::Builder::new().prefix("pko-bench-").tempdir()?,
            plane,
        };
        started.start_manager().await?;
        let secret = json!({
            "metadata": { "name": CREDENTIALS }, "stringData": { "passphrase": "correct-horse" },
        });
        fixtures::create::<Secret>(&started.namespace, secret).await?;
        fixtures::create_served_program(&started.namespace, PROGRAM).await?;
        println!("  started, {}", step.elapsed());
        Ok(started)
    }

    /// Starts a manager and waits until it is ready.
    pub(super) async fn start_manager(&mut self) -> anyhow::Result<()> {
        let [manager, agent, stand_in] = &self.executables;
        let health = free_address()?;
        let log = self.folder.path().join("manager.log");
        let log = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(manager);
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(["--workspace-runtime", self.runtime.flag()])
            .arg("--workspace-dir")
            .arg(self.workspaces())
            .arg("--agent")
            .arg(agent)
            // Programs are served at the same address, because another one would be another source.
            .args(["--program-fs-addr", &self.programs.to_string()])
            .args(["--health-probe-bind-address", &health.to_string()])
            .env("POD_NAMESPACE", "default")
            .env("PKO_PULUMI", stand_in)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        self.manager = Some(ServerProcess::start(command, health)?);
        eventually_within(TIMEOUT, "the manager to be ready", async || {
            check_ready(health).await
        })
        .await?;
        Ok(())
    }

    /// Kills the manager with SIGKILL.
    pub(super) fn kill_manager(&mut self) {
        self.manager = None;
    }

    /// The manager's resident memory in MiB.
    pub(super) fn resident(&self) -> anyhow::Result<f64> {
        let manager = self.manager.as_ref().context("no manager runs")?;
        Ok(manager.resident()? / 1024.0)
    }

    pub(super) fn stand_in(&self, name: &str, script: &Script) -> StandIn {
        StandIn::new(self.folder.path().join("stand-ins").join(name), script)
    }

    pub(super) fn subfolder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// The processes of agents and their children.
    pub(super) fn agents(&self) -> Vec<u32> {
        let manager = self.manager.as_ref().map(ServerProcess::process);
        let processes = processes_of(&self.workspaces()).into_iter();
        processes.filter(|each| Some(*each) != manager).collect()
    }

    fn workspaces(&self) -> PathBuf {
        self.folder.path().join("workspaces")
    }

    pub(super) async fn mark(&self) -> anyhow::Result<AuditPosition> {
        Ok(self.plane.audit_position().await?)
    }

    /// The manager's requests in this namespace since the mark.
    pub(super) async fn requests_since(
        &self,
        mark: AuditPosition,
    ) -> anyhow::Result<AuditedRequests> {
        let requests = self.plane.requests_since(mark).await?.by_user(USER);
        Ok(requests.only(|request| request.namespace == self.namespace.name()))
    }
}

impl Runtime {
    fn flag(self) -> &'static str {
        match self {
            Self::Pods => "pod",
            Self::Processes => "process",
        }
    }
}

impl Drop for BenchEnvironment {
    fn drop(&mut self) {
        self.manager = None;
        // Agents survive their manager by design.
        end_processes_of(&self.workspaces(), Duration::from_secs(1));
    }
}
