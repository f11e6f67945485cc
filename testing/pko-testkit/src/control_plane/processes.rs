//! The processes of a control plane, in one [`ProcessGroup`].

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::last_lines::last_lines;
use crate::process_group::ProcessGroup;

/// The components of one plane. Dropping it ends them and removes the directory.
pub(crate) struct Processes {
    group: ProcessGroup,
    running: Vec<Running>,
}

struct Running {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

/// A component that ended unexpectedly.
#[derive(Debug)]
pub struct Ended {
    pub name: &'static str,
    pub status: ExitStatus,
    /// The last lines of its log.
    pub log: String,
}

impl Processes {
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        Ok(Self {
            group: ProcessGroup::new(directory)?,
            running: Vec::new(),
        })
    }

    /// Starts a component. Its output is appended to a log file.
    pub(crate) fn start(
        &mut self,
        name: &'static str,
        command: &mut Command,
        log: PathBuf,
    ) -> io::Result<()> {
        let output = File::options().create(true).append(true).open(&log)?;
        let group = self.group.id()?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(group)
            .spawn()?;
        self.running.push(Running { name, child, log });
        Ok(())
    }

    /// Kills a component, and waits until it is gone.
    pub(crate) fn stop(&mut self, name: &str) -> io::Result<()> {
        let place = self.running.iter().position(|it| it.name == name);
        if let Some(place) = place {
            let mut stopped = self.running.remove(place);
            stopped.child.kill()?;
            stopped.child.wait()?;
        }
        Ok(())
    }

    pub(crate) fn check_ended(&mut self) -> io::Result<Option<Ended>> {
        for Running { name, child, log } in &mut self.running {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(Ended {
                    name,
                    status,
                    log: tail(log),
                }));
            }
        }
        Ok(None)
    }

    pub(crate) fn log_tail(&self, name: &str) -> String {
        let running = self.running.iter().find(|running| running.name == name);
        running
            .map(|running| tail(&running.log))
            .unwrap_or_default()
    }

    /// The process ids: the group leader's, then the components'.
    pub(crate) fn ids(&self) -> Vec<u32> {
        let components = self.running.iter().map(|running| running.child.id());
        std::iter::once(self.group.leader())
            .chain(components)
            .collect()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.group.kill();
        for Running { child, .. } in &mut self.running {
            // In case the group leader was killed
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn tail(log: &Path) -> String {
    last_lines(&fs::read(log).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn ended_process_is_reported_with_log_tail() {
        let folder = tempfile::tempdir().unwrap();
        let mut processes = Processes::new(folder.path()).unwrap();
        let script = "seq 1 40; echo address already in use >&2; exit 3";
        let log = folder.path().join("log");
        processes
            .start("sh", Command::new("sh").args(["-c", script]), log)
            .unwrap();
        let ended = loop {
            match processes.check_ended().unwrap() {
                Some(ended) => break ended,
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        assert_eq!((ended.name, ended.status.code()), ("sh", Some(3)));
        assert!(
            ended.log.ends_with("  40\n  address already in use\n"),
            "{}",
            ended.log
        );
        assert!(!ended.log.contains("  10\n"), "{}", ended.log);
    }

    #[test]
    fn drop_kills_stubborn_process_and_removes_directory() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("plane");
        fs::create_dir(&directory).unwrap();
        let mut processes = Processes::new(&directory).unwrap();
        let script = "trap '' TERM; while :; do sleep 1; done";
        processes
            .start(
                "sh",
                Command::new("sh").args(["-c", script]),
                directory.join("log"),
            )
            .unwrap();
        // Returns only when the child has ended
        drop(processes);
        assert!(!directory.exists());
    }
}
