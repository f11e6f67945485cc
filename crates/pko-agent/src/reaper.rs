//! As the first process of a container: the agent proper is the only child, and this process does
//! nothing but pass signals on and reap what the CLI leaves behind.

use std::{
    io,
    process::{Command, ExitCode},
};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

/// Whether this is the first process of a container.
pub(crate) fn is_needed() -> bool {
    getpid() == Pid::INIT
}

/// Runs this program again as a child, and ends as it ends.
pub(crate) fn run() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime.and_then(|runtime| runtime.block_on(supervise())) {
        Ok(code) => code,
        Err(error) => {
            tracing::error!(%error, "The agent could not be started as a child");
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
            _ = terminated.recv() => pass_on(child, Signal::TERM),
            _ = interrupted.recv() => pass_on(child, Signal::INT),
            _ = child_changed.recv() => if let Some(status) = reap(child)? {
                return Ok(exit_code(status));
            },
        }
    }
}

fn pass_on(child: Pid, signal: Signal) {
    if let Err(error) = kill_process(child, signal) {
        tracing::warn!(%error, "A signal could not be passed on");
    }
}

/// Reaps everything that has ended; the child's status if it is among it.
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

/// As a shell says it: the child's own code, or 128 and the signal's number.
fn exit_code(status: WaitStatus) -> ExitCode {
    let code = status
        .exit_status()
        .or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    ExitCode::from(code)
}
