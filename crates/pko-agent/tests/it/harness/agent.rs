//! Starts the agent as a process.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex},
};

use pko_proto::{
    agent::automation_service_client::AutomationServiceClient,
    run::run_service_client::RunServiceClient,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::UnixStream,
    process::{Child, Command},
    task::JoinHandle,
};
use tonic::transport::{Channel, Endpoint};

use super::{TestWorkspace, within_deadline};

/// Commands that start a process as process 1 of a PID namespace: as root, and without privileges.
const PID_NAMESPACE_LAUNCHERS: [&[&str]; 2] = [
    &["unshare", "--pid", "--fork", "--kill-child", "--"],
    &[
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--kill-child",
        "--",
    ],
];

pub(crate) struct Agent {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
    socket: PathBuf,
}

impl Agent {
    /// Returns when the agent accepts connections.
    pub(super) async fn start(place: &TestWorkspace, flags: &[&str]) -> Self {
        Self::spawn(place, &[], flags).wait_until_serving().await
    }

    /// Starts the agent as process 1. `None` if this machine has no PID namespaces.
    pub(super) async fn start_as_init(place: &TestWorkspace, flags: &[&str]) -> Option<Self> {
        let try_it = |launcher: &&&[&str]| {
            let tried = std::process::Command::new(launcher[0])
                .args(&launcher[1..])
                .arg("true")
                .stderr(Stdio::null())
                .status();
            tried.is_ok_and(|status| status.success())
        };
        let launcher = PID_NAMESPACE_LAUNCHERS.iter().find(try_it)?;
        Some(
            Self::spawn(place, launcher, flags)
                .wait_until_serving()
                .await,
        )
    }

    async fn wait_until_serving(self) -> Self {
        let mut agent = self;
        let serving = async {
            while UnixStream::connect(&agent.socket).await.is_err() {
                if agent.child.try_wait().unwrap().is_some() {
                    let _ = (&mut agent.reader).await;
                    panic!("no agent: {}", agent.log());
                }
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        within_deadline("the agent", serving).await;
        agent
    }

    /// The exit code and log of an agent that fails to start.
    pub(crate) async fn start_failure(
        place: &TestWorkspace,
        flags: &[&str],
    ) -> (Option<i32>, String) {
        let mut agent = Self::spawn(place, &[], flags);
        let status = within_deadline("the end of the agent", agent.child.wait()).await;
        let _ = (&mut agent.reader).await;
        (status.unwrap().code(), agent.log())
    }

    fn spawn(place: &TestWorkspace, launcher: &[&str], flags: &[&str]) -> Self {
        let socket = place.path("agent.sock");
        let line = [launcher, &[env!("CARGO_BIN_EXE_agent")]].concat();
        let mut command = std::process::Command::new(line[0]);
        command
            .args(&line[1..])
            .args(["--", "serve", "--skip-install", "--verbose", "--workspace"])
            .arg(place.workspace())
            .arg("--listen")
            .arg(format!("unix:{}", socket.display()))
            .args(flags)
            .stderr(Stdio::piped());
        place.apply_environment(&mut command);
        let mut child = Command::from(command).kill_on_drop(true).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let reader = collect_log(child.stderr.take().unwrap(), Arc::clone(&log));
        Self {
            child,
            log,
            reader,
            socket,
        }
    }

    pub(crate) async fn channel(&self) -> Channel {
        let uri = format!("unix:{}", self.socket.display());
        Endpoint::from_shared(uri).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn runs(&self) -> RunServiceClient<Channel> {
        RunServiceClient::new(self.channel().await)
    }

    pub(crate) async fn automation(&self) -> AutomationServiceClient<Channel> {
        AutomationServiceClient::new(self.channel().await)
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn process(&self) -> Pid {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        Pid::from_raw(id).unwrap()
    }

    /// Closes the agent's standard error.
    pub(crate) async fn close_log(&mut self) {
        self.reader.abort();
        // The pipe is closed once the task is gone.
        let _ = (&mut self.reader).await;
    }

    /// As a crash or the OOM killer does.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    pub(crate) fn terminate(&self) {
        kill_process(self.process(), Signal::TERM).unwrap();
    }

    /// Waits for the exit code.
    pub(crate) async fn wait_for_exit(mut self) -> Option<i32> {
        let status = within_deadline("the end of the agent", self.child.wait()).await;
        status.unwrap().code()
    }
}

fn collect_log(pipe: tokio::process::ChildStderr, log: Arc<Mutex<String>>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut lines = BufReader::new(pipe).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let mut log = log.lock().unwrap();
            log.push_str(&line);
            log.push('\n');
        }
    })
}
