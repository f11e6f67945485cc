//! The processes of containers.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::sync::watch;

use super::environment::Variables;

/// A variable of all processes of a container, in any process group.
pub(super) const MARK: &str = "PKO_NODE_CONTAINER";
/// The exit code for a process that can't be started, as in container runtimes.
const CANNOT_RUN: i32 = 128;

/// All that is needed to start a container.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    pub(super) variables: Variables,
    pub(super) directory: PathBuf,
    pub(super) log: PathBuf,
    pub(super) termination_log: PathBuf,
}

/// The first process of a container. It outlives this handle.
#[derive(Clone, Debug)]
pub(super) struct Process {
    id: u32,
    ended: watch::Receiver<Option<i32>>,
}

impl Process {
    /// Starts a container in a process group.
    pub(super) fn start(launch: &Launch, group: i32) -> io::Result<Self> {
        let log = File::create(&launch.log)?;
        let mut child = Command::new(&launch.program)
            .args(&launch.arguments)
            .env_clear()
            .envs(&launch.variables)
            .current_dir(&launch.directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(group)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id().ok_or(io::ErrorKind::NotFound)?;
        let (sender, ended) = watch::channel(None);
        tokio::spawn(async move {
            let code = child.wait().await.map_or(CANNOT_RUN, exit_code);
            sender.send_replace(Some(code));
        });
        Ok(Self { id, ended })
    }

    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Waits for its exit code.
    pub(super) async fn end(&self) -> i32 {
        let mut ended = self.ended.clone();
        let end = ended.wait_for(Option::is_some).await;
        end.ok().and_then(|code| *code).unwrap_or(CANNOT_RUN)
    }

    /// Sends a signal, unless it has ended: its number may be another's by now.
    pub(super) fn signal(&self, signal: Signal) {
        if self.ended.borrow().is_none() {
            send(self.id, signal);
        }
    }
}

/// The exit code as in shells and container runtimes.
fn exit_code(status: ExitStatus) -> i32 {
    let signalled = status.signal().map(|signal| 128 + signal);
    status.code().or(signalled).unwrap_or(CANNOT_RUN)
}

/// The processes of containers in this folder.
pub(super) fn processes_in(folder: &Path) -> Vec<u32> {
    let mark = format!("{MARK}={}", folder.display());
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process: &u32| {
            let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|variable| is_below(variable, mark.as_bytes()))
        })
        .collect()
}

fn is_below(variable: &[u8], mark: &[u8]) -> bool {
    let rest = variable.strip_prefix(mark);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Kills all that is left of a container or of a pod.
pub(super) fn kill_all(folder: &Path) {
    for process in processes_in(folder) {
        send(process, Signal::KILL);
    }
}

fn send(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    if let Some(process) = process {
        // It may have ended by itself a moment ago
        let _ = kill_process(process, signal);
    }
}
