//! The processes of a control plane, and their certain end.
//!
//! A keeper, which is a few lines of shell, leads a process group that all components join. It
//! waits for the end of its standard input, whose other end only this process holds. Whether that
//! is closed on drop or by the death of this process, even by SIGKILL, the keeper then removes the
//! data directory and kills its group. It is not in the terminal's foreground group, so Ctrl-C
//! reaches this process first, never the components alone.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use crate::last_lines::last_lines;

/// `kill -KILL 0` ends the keeper too, so it is last. The directory gets another name first: what
/// still runs then finds nothing under the old one, and can't add a file to what is being removed.
const KEEPER: &str = r#"
trap '' HUP INT TERM
while read -r _; do :; done
mv -- "$1" "$1.removed" && rm -rf -- "$1.removed"
kill -KILL 0
"#;

/// The components of one plane. Dropping it ends them and removes the directory.
pub(crate) struct Processes {
    keeper: Child,
    lifeline: Option<ChildStdin>,
    running: Vec<Running>,
}

struct Running {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

/// A component that ended when it should not have.
#[derive(Debug)]
pub struct Ended {
    /// The component.
    pub name: &'static str,
    /// How it ended.
    pub status: ExitStatus,
    /// The last lines of its log.
    pub log: String,
}

impl Processes {
    /// Starts the keeper of a directory.
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "pko-testkit-keeper"])
            .arg(directory)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let lifeline = keeper.stdin.take();
        Ok(Self {
            keeper,
            lifeline,
            running: Vec::new(),
        })
    }

    /// Starts a component whose output goes to a log file.
    pub(crate) fn start(
        &mut self,
        name: &'static str,
        command: &mut Command,
        log: PathBuf,
    ) -> io::Result<()> {
        let output = File::create(&log)?;
        let group = i32::try_from(self.keeper.id()).map_err(io::Error::other)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(group)
            .spawn()?;
        self.running.push(Running { name, child, log });
        Ok(())
    }

    /// A component that has ended, if there is one.
    pub(crate) fn ended(&mut self) -> io::Result<Option<Ended>> {
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

    /// The end of a component's log.
    pub(crate) fn log_tail(&self, name: &str) -> String {
        let running = self.running.iter().find(|running| running.name == name);
        running
            .map(|running| tail(&running.log))
            .unwrap_or_default()
    }

    /// The process ids: the keeper's, then the components'.
    pub(crate) fn ids(&self) -> Vec<u32> {
        let components = self.running.iter().map(|running| running.child.id());
        std::iter::once(self.keeper.id())
            .chain(components)
            .collect()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.keeper.wait();
        for Running { child, .. } in &mut self.running {
            // For a keeper that somebody else killed
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
    fn what_ends_is_reported_with_the_end_of_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut processes = Processes::new(folder.path()).unwrap();
        let script = "seq 1 40; echo address already in use >&2; exit 3";
        let log = folder.path().join("log");
        processes
            .start("sh", Command::new("sh").args(["-c", script]), log)
            .unwrap();
        let ended = loop {
            match processes.ended().unwrap() {
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
    fn drop_ends_what_ignores_signals_and_removes_the_directory() {
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
