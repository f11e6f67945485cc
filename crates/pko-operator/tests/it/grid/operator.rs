//! The operator of one try: a manager of one namespace, behind a proxy of its own.

use std::{
    path::{Path, PathBuf},
    process::Child,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pko_testkit::{
    FaultProxy, TimedOut, end_processes_of, eventually, fault_proxy::KillPoint, processes_of,
};
use rustix::process::{Pid, Signal, kill_process};

use super::user::FENCE;
use crate::harness::{Launch, System, free_address};

pub(super) struct Operator<'system> {
    system: &'system System,
    pub(super) proxy: FaultProxy,
    namespace: String,
    folder: PathBuf,
    /// Where every manager serves Programs: another place would be another source.
    pub(super) programs: String,
    manager: Option<Child>,
}

impl<'system> Operator<'system> {
    pub(super) fn start(system: &'system System, folder: &Path, namespace: &str) -> Self {
        let mut operator = Self {
            system,
            proxy: system.proxy(),
            namespace: namespace.to_owned(),
            folder: folder.to_owned(),
            programs: free_address(),
            manager: None,
        };
        operator.start_manager();
        operator
    }

    pub(super) fn start_manager(&mut self) {
        let manager = self.system.launch(&Launch {
            kubeconfig: self.proxy.kubeconfig(),
            workspaces: &self.workspaces(),
            programs: &self.programs,
            health: &free_address(),
            flags: &["--namespaces", &self.namespace],
            log: &self.log(),
        });
        self.manager = Some(manager);
    }

    /// Kills the manager, as the kernel would, unless it is dead already.
    pub(super) fn kill_manager(&mut self) {
        if let Some(mut manager) = self.manager.take() {
            let _ = manager.kill();
            let _ = manager.wait();
        }
    }

    /// Kills the current manager at a write. The returned flag is set once it is killed.
    pub(super) fn dies_at(&self, write: usize, when: KillPoint) -> Arc<AtomicBool> {
        let process = self.manager.as_ref().expect("a manager runs").id();
        let process = Pid::from_raw(process.cast_signed()).unwrap();
        let died = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&died);
        self.proxy.kill_at(write, when, move || {
            // One that is gone already is as dead as it should be.
            let _ = kill_process(process, Signal::KILL);
            tells.store(true, Ordering::SeqCst);
        });
        died
    }

    /// Whether the manager runs; one that has ended has ended by itself.
    pub(super) fn is_alive(&mut self) -> bool {
        let manager = self.manager.as_mut();
        manager.is_some_and(|manager| matches!(manager.try_wait(), Ok(None)))
    }

    /// Kills the API server itself, which comes back.
    pub(super) async fn restart_api_server(&self) {
        self.system.plane.restart_api_server().await.unwrap();
    }

    /// The writes so far, without those for the Program that shows that it works.
    pub(super) fn writes(&self) -> usize {
        let writes = self.proxy.writes().into_iter();
        writes.filter(|write| !write.path.contains(FENCE)).count()
    }

    pub(super) fn workspaces(&self) -> PathBuf {
        self.folder.join("workspaces")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("manager.log")
    }

    /// The processes of the agents.
    pub(super) fn agents(&self) -> usize {
        let manager = self.manager.as_ref().map(Child::id);
        let processes = processes_of(&self.workspaces()).into_iter();
        processes
            .filter(|process| Some(*process) != manager)
            .count()
    }

    /// Waits until no agent is left.
    pub(super) async fn no_agent_is_left(&self) -> Result<(), TimedOut> {
        eventually("the agents to be gone", async || match self.agents() {
            0 => Ok(()),
            agents => Err(agents),
        })
        .await
    }
}

impl Drop for Operator<'_> {
    fn drop(&mut self) {
        self.kill_manager();
        end_processes_of(&self.workspaces(), Duration::from_secs(1));
    }
}
