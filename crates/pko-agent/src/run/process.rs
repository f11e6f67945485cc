//! A CLI that an agent before this one has started and not seen end.
//!
//! It may still change things, so nothing else begins before it has ended. It is stopped as any run is:
//! an interrupt, patience, a kill.

use std::{fs, io, time::Duration};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A process, told from a later one with the same number by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessIdentity {
    id: i32,
    started: u64,
}

impl ProcessIdentity {
    /// The process of this number as it is now.
    pub(crate) fn of(id: u32) -> Option<Self> {
        let id = i32::try_from(id).ok()?;
        let started = started(id).ok().flatten()?;
        Some(Self { id, started })
    }

    /// Its number, which may be another's once it has ended.
    pub(crate) fn id(self) -> u32 {
        self.id.unsigned_abs()
    }

    pub(crate) fn is_alive(self) -> bool {
        matches!(started(self.id), Ok(Some(started)) if started == self.started)
    }

    /// Stops it, and returns when it has ended.
    pub(crate) async fn stop(self, patience: Duration) {
        self.signal(|process| kill_process(process, Signal::INT));
        let end = Instant::now() + patience;
        while self.is_alive() {
            if Instant::now() >= end {
                // The CLI is the leader of a group of its own.
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
            tracing::warn!(%error, "A signal could not be sent to pulumi");
        }
    }
}

/// When a process started, in the kernel's own units; nothing if there is none or it has ended.
fn started(id: i32) -> io::Result<Option<u64>> {
    match fs::read_to_string(format!("/proc/{id}/stat")) {
        Ok(text) => Ok(parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The fields follow the name, which is in parentheses and may hold anything.
fn parse(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    // The 22nd of the whole line, and the state is the third.
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
        assert_eq!(parse(&line("S")), Some(777));
        assert_eq!(parse(&line("Z")), None);
        assert_eq!(parse("nonsense"), None);
    }

    #[tokio::test]
    async fn orphaned_process_is_stopped() {
        let mut child = tokio::process::Command::new("/bin/sh")
            .args(["-c", "trap '' INT; while :; do sleep 0.05; done"])
            .process_group(0)
            .spawn()
            .unwrap();
        let process = ProcessIdentity::of(child.id().unwrap()).unwrap();
        assert!(process.is_alive());
        let reaped = tokio::spawn(async move { child.wait().await });
        process.stop(Duration::ZERO).await;
        assert!(!process.is_alive());
        assert!(!reaped.await.unwrap().unwrap().success());
        process.stop(Duration::ZERO).await;
    }
}
