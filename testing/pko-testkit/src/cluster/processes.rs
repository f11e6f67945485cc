//! Processes of a node, read from `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PAUSE: Duration = Duration::from_millis(20);

/// A process on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProcess {
    /// Its id, as the host counts.
    pub id: u32,
    /// The command line, the program first.
    pub arguments: Vec<String>,
    pub(super) parent: u32,
    /// Its ids, from the host's to the one in its own namespace.
    pub(super) ids: Vec<u32>,
}

impl NodeProcess {
    fn read(id: u32) -> Option<Self> {
        let folder = Path::new("/proc").join(id.to_string());
        let status = fs::read_to_string(folder.join("status")).ok()?;
        let value = |field: &str| status.lines().find_map(|line| line.strip_prefix(field));
        if value("State:")?.trim_start().starts_with('Z') {
            return None;
        }
        let arguments = fs::read(folder.join("cmdline")).ok()?;
        let arguments = arguments.strip_suffix(b"\0").unwrap_or(&arguments);
        let arguments = arguments.split(|byte| *byte == 0);
        Some(Self {
            id,
            arguments: arguments
                .map(|argument| String::from_utf8_lossy(argument).into_owned())
                .collect(),
            parent: value("PPid:")?.trim().parse().ok()?,
            ids: value("NSpid:")?
                .split_whitespace()
                .filter_map(|id| id.parse().ok())
                .collect(),
        })
    }

    pub(super) fn program(&self) -> &Path {
        Path::new(self.arguments.first().map_or("", String::as_str))
    }

    fn kill(&self) {
        let id = i32::try_from(self.id).ok().and_then(Pid::from_raw);
        if let Some(id) = id {
            let _ = kill_process(id, Signal::KILL);
        }
    }
}

/// All processes but zombies.
pub(super) fn all() -> Vec<NodeProcess> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names
        .filter_map(|name| NodeProcess::read(name.parse().ok()?))
        .collect()
}

/// A process and its descendants.
pub(super) fn descendants(ancestor: u32) -> Vec<NodeProcess> {
    let mut others = all();
    let mut found: Vec<NodeProcess> = Vec::new();
    loop {
        let (next, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|process| {
            process.id == ancestor || found.iter().any(|other| other.id == process.parent)
        });
        others = rest;
        if next.is_empty() {
            return found;
        }
        found.extend(next);
    }
}

/// Kills the processes that `find` returns until there are none. Returns false after the deadline.
pub(super) fn kill_all(patience: Duration, find: impl Fn() -> Vec<NodeProcess>) -> bool {
    let end = Instant::now() + patience;
    let mut killed = BTreeSet::new();
    loop {
        let found = find();
        killed.retain(|id| !is_gone(*id));
        if found.is_empty() && killed.is_empty() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        found.iter().for_each(NodeProcess::kill);
        killed.extend(found.iter().map(|process| process.id));
        thread::sleep(PAUSE);
    }
}

/// True if a process is gone, or a zombie.
fn is_gone(id: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/status"));
    status.map_or(true, |status| is_dead(&status))
}

/// A process is shown as dead when its first thread is. The others may still be on their way out,
/// and until the last of them is, it listens to its ports.
fn is_dead(status: &str) -> bool {
    let value = |field: &str| status.lines().find_map(|line| line.strip_prefix(field));
    let state = value("State:").unwrap_or_default().trim_start();
    let threads = value("Threads:").unwrap_or_default().trim();
    state.starts_with(['Z', 'X']) && matches!(threads, "" | "0" | "1")
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn process_is_dead_with_its_last_thread() {
        let table = [
            ("State:\tZ (zombie)\nThreads:\t1\n", true),
            ("State:\tX (dead)\nThreads:\t0\n", true),
            ("State:\tZ (zombie)\nThreads:\t7\n", false),
            ("State:\tS (sleeping)\nThreads:\t1\n", false),
            ("State:\tR (running)\nThreads:\t12\n", false),
        ];
        for (status, expected) in table {
            assert_eq!(is_dead(status), expected, "{status}");
        }
        assert!(is_gone(u32::MAX));
        assert!(!is_gone(std::process::id()));
    }

    #[test]
    fn descendants_are_found_and_killed() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 600 & sleep 601; :"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let find = || descendants(child.id());
        while find().len() < 3 {
            thread::sleep(PAUSE);
        }
        let programs: Vec<_> = find().iter().map(|it| it.program().to_owned()).collect();
        assert_eq!(programs, ["sh", "sleep", "sleep"].map(Path::new));
        let others = find();
        let others = || all().into_iter().filter(|it| others.contains(it)).collect();
        assert!(kill_all(Duration::from_secs(5), others));
        child.wait().unwrap();
    }
}
