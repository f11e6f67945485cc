//! An agent as a process.

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

use super::{TestWorkspace, soon};

/// What makes a process the first of its own; with rights, and without.
const FIRST_PROCESS: [&[&str]; 2] = [
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

/// A running agent.
pub(crate) struct Agent {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
    socket: PathBuf,
}

impl Agent {
    /// Returns when it answers.
    pub(super) async fn start(place: &TestWorkspace, flags: &[&str]) -> Self {
        Self::spawn(place, &[], flags).serving().await
    }

    /// As the first process of a container. Nothing where this machine makes no such processes.
    pub(super) async fn start_first(place: &TestWorkspace, flags: &[&str]) -> Option<Self> {
        let try_it = |launcher: &&&[&str]| {
            let tried = std::process::Command::new(launcher[0])
                .args(&launcher[1..])
                .arg("true")
                .stderr(Stdio::null())
                .status();
            tried.is_ok_and(|status| status.success())
        };
        let launcher = FIRST_PROCESS.iter().find(try_it)?;
        Some(Self::spawn(place, launcher, flags).serving().await)
    }

    async fn serving(self) -> Self {
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
        soon("the agent", serving).await;
        agent
    }

    /// For an agent that refuses to serve: its exit code and what it logged.
    pub(crate) async fn refused(place: &TestWorkspace, flags: &[&str]) -> (Option<i32>, String) {
        let mut agent = Self::spawn(place, &[], flags);
        let status = soon("the end of the agent", agent.child.wait()).await;
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
        place.surround(&mut command);
        let mut child = Command::from(command).kill_on_drop(true).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let reader = follow(child.stderr.take().unwrap(), Arc::clone(&log));
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

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub(crate) fn process(&self) -> Pid {
        let id = i32::try_from(self.child.id().unwrap()).unwrap();
        Pid::from_raw(id).unwrap()
    }

    /// From now on nobody reads its log.
    pub(crate) async fn ignore_log(&mut self) {
        self.reader.abort();
        // The pipe is closed once the task is gone.
        let _ = (&mut self.reader).await;
    }

    /// As a crash or the kernel would.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    pub(crate) fn terminate(&self) {
        kill_process(self.process(), Signal::TERM).unwrap();
    }

    /// Until it has ended; its exit code.
    pub(crate) async fn ended(mut self) -> Option<i32> {
        let status = soon("the end of the agent", self.child.wait()).await;
        status.unwrap().code()
    }
}

fn follow(pipe: tokio::process::ChildStderr, log: Arc<Mutex<String>>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut lines = BufReader::new(pipe).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let mut log = log.lock().unwrap();
            log.push_str(&line);
            log.push('\n');
        }
    })
}
