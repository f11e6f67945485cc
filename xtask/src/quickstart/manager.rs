//! A manager with process workspaces, which end with it.

use std::{
    fs::{self, File},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail};
use pko_testkit::{ControlPlane, PKO_PULUMI, end_processes_of, eventually};
use tempfile::TempDir;

use pko_testkit::readiness::check_ready;

/// The time for an agent to end its run.
const AGENT_TIMEOUT: Duration = Duration::from_secs(20);

/// A manager and its folder. Dropping it ends the manager and the agents, and removes the folder.
pub(super) struct Manager {
    child: Child,
    folder: TempDir,
}

impl Manager {
    /// Starts a manager and waits until it is ready. Its workspaces use this `pulumi`, if any.
    pub(super) async fn start(
        programs: &Path,
        plane: &ControlPlane,
        pulumi: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("pko-").tempdir()?;
        let health = format!("127.0.0.1:{}", free_port()?);
        let log = File::create(folder.path().join("manager.log"))?;
        let program = programs.join("manager");
        let child = Command::new(&program)
            .arg("--kubeconfig")
            .arg(plane.kubeconfig())
            .args(["--workspace-runtime", "process", "--workspace-dir"])
            .arg(folder.path().join("workspaces"))
            .args([
                "--program-fs-addr",
                "127.0.0.1:0",
                "--health-probe-bind-address",
                &health,
            ])
            .envs(pulumi.map(|pulumi| (PKO_PULUMI, pulumi)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("failed to run {}", program.display()))?;
        let mut manager = Self { child, folder };
        let ready = eventually("the manager to be ready", async || {
            if let Ok(Some(status)) = manager.child.try_wait() {
                return Ok(Err(status));
            }
            check_ready(&health).await.map(Ok)
        });
        match ready.await? {
            Ok(()) => Ok(manager),
            Err(status) => bail!("the manager ended with {status}\n{}", manager.log_tail()),
        }
    }

    /// The folder with its log and its workspaces.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.folder().join("manager.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines
            .iter()
            .skip(lines.len().saturating_sub(20))
            .copied()
            .collect::<Vec<_>>();
        format!("the end of the manager's log:\n{}", last.join("\n"))
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Agents survive their manager by design, and may have to end a run first.
        end_processes_of(&self.folder().join("workspaces"), AGENT_TIMEOUT);
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
