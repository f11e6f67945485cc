//! A CLI process that a previous agent started and that still runs.
//!
//! It may still change resources, so no run starts before it has exited. It is stopped like any
//! run: interrupted, and killed after a while.

use std::{fs, io, time::Duration};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A process id with its start time, which distinguishes it from a later process of the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    id: i32,
    started: u64,
}

impl ProcessIdentity {
    /// The process that has this id now.
    pub(crate) fn from_pid(id: u32) -> Option<Self> {
        let id = i32::try_from(id).ok()?;
        let started = start_time(id).ok().flatten()?;
        Some(Self { id, started })
    }

    /// The process id, which another process may have once this one has exited.
    pub(crate) fn id(self) -> u32 {
        self.id.unsigned_abs()
    }

    pub(crate) fn is_alive(self) -> bool {
        matches!(start_time(self.id), Ok(Some(started)) if started == self.started)
    }

    /// Stops the process, and returns when it has exited.
    pub(crate) async fn stop(self, patience: Duration) {
        self.signal(|process| kill_process(process, Signal::INT));
        let end = Instant::now() + patience;
        while self.is_alive() {
            if Instant::now() >= end {
                // The CLI leads its own process group.
                self.signal(|process| kill_process_group(process, Signal::KILL));
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    fn signal(self, send: impl FnOnce(Pid) -> rustix::io::Result<()>) {
        if !self.is_alive() {
            return;
        }
        if let Some(Err(error)) = Pid::from_raw(self.id).map(send) {
            tracing::warn!(%error, "Failed to send a signal to pulumi");
        }
    }
}

/// The start time in clock ticks; `None` if the process does not exist or has exited.
fn start_time(id: i32) -> io::Result<Option<u64>> {
    match fs::read_to_string(format!("/proc/{id}/stat")) {
        Ok(text) => Ok(parse_start_time(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The fields follow the name, which is in parentheses and may contain any character.
fn parse_start_time(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // Field 22 of the line; the state is field 3.
    let started = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_start_time_is_parsed() {
        let line = |state: &str| {
            format!("42 (a ) b) {state} 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 777 9 10\n")
        };
        assert_eq!(parse_start_time(&line("S")), Some(777));
        assert_eq!(parse_start_time(&line("Z")), None);
        assert_eq!(parse_start_time("nonsense"), None);
    }

    #[tokio::test]
    async fn orphaned_process_is_stopped() {
        let mut child = tokio::process::Command::new("/bin/sh")
            .args(["-c", "trap '' INT; while :; do sleep 0.05; done"])
            .process_group(0)
            .spawn()
            .unwrap();
        let process = ProcessIdentity::from_pid(child.id().unwrap()).unwrap();
        assert!(process.is_alive());
        let reaped = tokio::spawn(async move { child.wait().await });
        process.stop(Duration::ZERO).await;
        assert!(!process.is_alive());
        assert!(!reaped.await.unwrap().unwrap().success());
        process.stop(Duration::ZERO).await;
    }
}
