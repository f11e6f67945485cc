//! Init process of a container: runs the agent as its child, forwards signals, and reaps orphaned
//! processes of the CLI.

use std::{
    io,
    process::{Command, ExitCode},
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

/// True for process 1 of a container.
pub(crate) fn is_needed() -> bool {
    getpid() == Pid::INIT
}

/// Runs this program as a child, and exits with its exit code.
pub(crate) fn run() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime.and_then(|runtime| runtime.block_on(supervise())) {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(%error, "Failed to start the agent as a child process");
            ExitCode::FAILURE
        }
    }
}

async fn supervise() -> io::Result<ExitCode> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut child_changed = signal(SignalKind::child())?;
    let child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .spawn()?;
    let child = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let child = child.ok_or_else(|| io::Error::other("the child has no process id"))?;
    loop {
        tokio::select! {
            _ = terminated.recv() => forward(child, Signal::TERM),
            _ = interrupted.recv() => forward(child, Signal::INT),
            _ = child_changed.recv() => if let Some(status) = reap(child)? {
                return Ok(exit_code(status));
            },
        }
    }
}

fn forward(child: Pid, signal: Signal) {
    if let Err(error) = kill_process(child, signal) {
        tracing::warn!(%error, "Failed to forward a signal");
    }
}

/// Reaps all exited processes; returns the child's status if it is among them.
fn reap(child: Pid) -> io::Result<Option<WaitStatus>> {
    let mut ended = None;
    while let Some((process, status)) = wait(WaitOptions::NOHANG)? {
        if process == child {
            ended = Some(status);
            break;
        }
    }
    Ok(ended)
}

/// As in a shell: the child's exit code, or 128 plus the signal number.
fn exit_code(status: WaitStatus) -> ExitCode {
    let code = status
        .exit_status()
        .or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    ExitCode::from(code)
}
